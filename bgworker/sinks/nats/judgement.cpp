#include "judgement.h"

#include "extension/core/verdict.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace outbox::nats
{

namespace
{

// JetStream's own numbers, of its errors.json.
enum ErrorCode
{
    kAccountResources = 10002,
    kClusterNotAvailable = 10008,
    kClusterNoLeader = 10009,
    kInsufficientResources = 10023,
    kMemoryExceeded = 10028,
    kNotEnabledForAccount = 10039,
    kStorageExceeded = 10047,
    kMessageTooLarge = 10054,
    kStreamNotFound = 10059,
    kStreamMismatch = 10060,
    kNotEnabled = 10076,
    kStoreFailed = 10077,
    kHeaderTooLarge = 10097,
    kSealed = 10109
};

constexpr int kShown = 160;

Judgement make(Reach reach, const char *name, const char *hint, const char *format, ...) noexcept
    __attribute__((format(printf, 4, 5)));

Judgement
make(Reach reach, const char *name, const char *hint, const char *format, ...) noexcept
{
    char text[sizeof Failure::text];
    va_list arguments;
    va_start(arguments, format);
    if (std::vsnprintf(text, sizeof text, format, arguments) < 0)
        text[0] = '\0';
    va_end(arguments);
    drop_cut_character(text);
    constexpr FailureClass kClasses[] = {FailureClass::none, FailureClass::event,
                                         FailureClass::topic, FailureClass::retriable};
    Judgement judgement;
    judgement.reach = reach;
    set_failure(judgement.failure, kClasses[static_cast<int>(reach)], name, "%s", text);
    set_hint(judgement.failure, hint);
    return judgement;
}

struct Shown
{
    explicit Shown(std::string_view text) noexcept : part(clip(text, kShown)) {}
    int size() const noexcept { return static_cast<int>(part.size()); }
    const char *data() const noexcept { return part.data(); }
    std::string_view part;
};

bool
is_of_account(int code) noexcept
{
    return code == kAccountResources || code == kClusterNotAvailable ||
           code == kInsufficientResources || code == kMemoryExceeded ||
           code == kNotEnabledForAccount || code == kStorageExceeded || code == kNotEnabled;
}

Judgement
judge_store_failure(std::string_view subject, bool all, const Answer &answer) noexcept
{
    const Shown shown(subject);
    // Of a stream with a limit for each subject that one is full, and others are not.
    const bool one = std::strstr(answer.description, "per subject") != nullptr;
    return make(all && !one ? Reach::destination : Reach::subject, "STREAM_FULL",
                "Make room in the stream, or raise its limits; what waits is sent then.",
                "subject \"%.*s\": the stream did not store the message: %s", shown.size(),
                shown.data(), answer.description);
}

} // namespace

Judgement
judge_answer(std::string_view subject, std::string_view stream, const Answer &answer) noexcept
{
    const Shown shown(subject);
    const bool all = !stream.empty();
    if (answer.is_stored() && (stream.empty() || stream == answer.stream))
        return {};
    if (!answer.has_error)
        return judge_strange_answer(subject);
    const int code = answer.error_code;
    if (is_of_account(code))
        return make(Reach::destination, "JETSTREAM_UNAVAILABLE",
                    "See the limits of the account and the server's log.",
                    "JetStream takes no message: %s (%d)", answer.description, code);
    if (code == kMessageTooLarge || code == kHeaderTooLarge)
    {
        Judgement judgement =
            make(Reach::event, "MESSAGE_TOO_LARGE", "Raise the stream's max_msg_size.",
                 "subject \"%.*s\": %s", shown.size(), shown.data(), answer.description);
        judgement.failure.too_large = true;
        return judgement;
    }
    if (code == kStoreFailed)
        return judge_store_failure(subject, all, answer);
    if (code == kStreamMismatch)
        return make(Reach::subject, "WRONG_STREAM",
                    "Correct the subjects of the streams, or the options subject and stream.",
                    "subject \"%.*s\" belongs to another stream than \"%.*s\"", shown.size(),
                    shown.data(), Shown(stream).size(), Shown(stream).data());
    if (code == kStreamNotFound || code == kSealed || code == kClusterNoLeader ||
        answer.http_code >= 500)
        return make(all ? Reach::destination : Reach::subject, "STREAM_UNAVAILABLE", "",
                    "subject \"%.*s\": %s (%d)", shown.size(), shown.data(), answer.description,
                    code);
    // Of what is not known others of the subject may be free, and attempts are counted.
    return make(Reach::event, "REFUSED", "", "subject \"%.*s\": %s (%d)", shown.size(),
                shown.data(), answer.description, code);
}

Judgement
judge_no_responders(std::string_view subject) noexcept
{
    const Shown shown(subject);
    return make(Reach::subject, "NO_STREAM",
                "Create a stream that has the subject; what waits is sent then.",
                "no stream takes the subject \"%.*s\"", shown.size(), shown.data());
}

Judgement
judge_not_permitted(std::string_view subject) noexcept
{
    const Shown shown(subject);
    return make(Reach::subject, "NOT_PERMITTED", "Permit the user to publish on the subject.",
                "the user may not publish on the subject \"%.*s\"", shown.size(), shown.data());
}

Judgement
judge_silence(std::string_view subject, int timeout_ms) noexcept
{
    const Shown shown(subject);
    return make(Reach::subject, "NOT_ACKNOWLEDGED",
                "See whether the subject's stream has a leader.",
                "subject \"%.*s\": not acknowledged for %d ms while others were", shown.size(),
                shown.data(), timeout_ms);
}

Judgement
judge_strange_answer(std::string_view subject) noexcept
{
    const Shown shown(subject);
    return make(Reach::subject, "NO_ACKNOWLEDGEMENT",
                "See who listens on the subject, and which streams have it.",
                "subject \"%.*s\": the answer is no acknowledgement of the stream", shown.size(),
                shown.data());
}

Judgement
judge_too_large(std::string_view subject, long long limit) noexcept
{
    const Shown shown(subject);
    Judgement judgement =
        make(Reach::event, "MAX_PAYLOAD", "Raise the server's max_payload.",
             "subject \"%.*s\": headers and payload are larger than the %lld bytes that the server "
             "takes",
             shown.size(), shown.data(), limit);
    judgement.failure.too_large = true;
    return judgement;
}

Judgement
judge_information(std::string_view stream, const Answer &answer) noexcept
{
    if (!answer.has_error)
        return {};
    if (!stream.empty() && answer.error_code == kStreamNotFound)
        return make(Reach::destination, "STREAM_NOT_FOUND", "Create the stream.",
                    "there is no stream \"%.*s\"", Shown(stream).size(), Shown(stream).data());
    if (is_of_account(answer.error_code) ||
        (!stream.empty() && answer.error_code == kClusterNoLeader))
        return make(Reach::destination, "JETSTREAM_UNAVAILABLE",
                    "See the limits of the account and the server's log.",
                    "JetStream takes no message: %s (%d)", answer.description, answer.error_code);
    return {};
}

Judgement
judge_no_jetstream() noexcept
{
    return make(Reach::destination, "NO_JETSTREAM",
                "Enable JetStream in the server and for the account.",
                "the server does not offer JetStream");
}

} // namespace outbox::nats
