// How a request has ended.
#include "request.h"

#include <algorithm>
#include <ctime>

namespace outbox::http
{

namespace
{

// A date may be that of the end of the world.
constexpr std::int64_t kLongestRetryAfter = std::int64_t{10} * 365 * 24 * 60 * 60;

// What kept the connection from being there.
bool
is_unreachable(CURLcode code)
{
    switch (code)
    {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_ENGINE_NOTFOUND:
    case CURLE_SSL_CLIENTCERT:
    case CURLE_OUT_OF_MEMORY:
    case CURLE_FAILED_INIT:
        return true;
    default:
        return false;
    }
}

const char *
name_of(CURLcode code)
{
    switch (code)
    {
    case CURLE_COULDNT_RESOLVE_HOST:
        return "RESOLVE";
    case CURLE_COULDNT_CONNECT:
        return "CONNECT";
    case CURLE_OPERATION_TIMEDOUT:
        return "TIMEOUT";
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_PARTIAL_FILE:
        return "CLOSED";
    case CURLE_OUT_OF_MEMORY:
    case CURLE_FAILED_INIT:
        return "NO_MEMORY";
    default:
        return is_unreachable(code) ? "TLS" : "PROTOCOL";
    }
}

} // namespace

void
Request::describe(Answer &answer, const char *name, const std::string &text) const
{
    std::string masked = text;
    setup_.secrets.mask(masked);
    set_failure(answer.failure, FailureClass::retriable, name, "%s", masked.c_str());
    answer.failure.code = answer.status;
    answer.failure.possibly_persisted = answer.maybe_arrived;
}

Answer
Request::answered(int status)
{
    Answer answer;
    answer.status = status;
    if (!retry_after_.empty())
    {
        std::int64_t seconds = retry_after_seconds(retry_after_);
        const std::time_t date = seconds < 0 ? curl_getdate(retry_after_.c_str(), nullptr) : -1;
        if (date >= 0)
            seconds = std::max<std::int64_t>(date - std::time(nullptr), 0);
        answer.retry_after_ms = seconds < 0 ? -1 : std::min(seconds, kLongestRetryAfter) * 1000;
    }
    answer.outcome = outcome_of(status, answer.retry_after_ms >= 0);
    if (answer.outcome == Outcome::delivered)
        return answer;
    const std::string code = std::to_string(status);
    const char *reason = reason_of(status);
    std::string text = setup_.endpoint.shown + " answered " + code;
    if (reason[0] != '\0')
        text.append(" ").append(reason);
    // A secret is recognised as the bytes that it has, not as they are shown, nor where it is cut.
    if (body_bytes_ > body_.size())
        setup_.secrets.mask_cut(body_);
    else
        setup_.secrets.mask(body_);
    const std::string body = clean_text(body_, kShownBytes);
    if (!body.empty())
        text.append(": ").append(body);
    describe(answer, ("HTTP_" + code).c_str(), text);
    if (answer.outcome == Outcome::refused && status < 400)
        set_hint(answer.failure,
                 "Redirects are not followed: the option url must be the last address.");
    answer.failure.too_large = status == 413;
    return answer;
}

Answer
Request::failed(CURLcode code)
{
    Answer answer;
    curl_off_t sending = 0; // since when; 0: it was not reached
    (void) curl_easy_getinfo(easy_.get(), CURLINFO_PRETRANSFER_TIME_T, &sending);
    const bool no_time = code == CURLE_OPERATION_TIMEDOUT && sending == 0;
    const bool was_sent = code == CURLE_OUT_OF_MEMORY && sending != 0;
    answer.outcome =
        (is_unreachable(code) && !was_sent) || no_time ? Outcome::unreachable : Outcome::trouble;
    answer.maybe_arrived = answer.outcome == Outcome::trouble;
    if (!denied_.empty() && code == CURLE_COULDNT_CONNECT)
    {
        describe(answer, "ADDRESS_DENIED",
                 setup_.endpoint.shown + " leads to " + denied_ +
                     ", which outbox.webhook_deny_networks forbids");
        return answer;
    }
    // libcurl says so of a line that is too long for it.
    if (was_sent)
        fault_ = "the answer has too many headers, or no memory is left";
    if (fault_ != nullptr)
    {
        describe(answer, "PROTOCOL", setup_.endpoint.shown + ": " + fault_);
        return answer;
    }
    const std::string reason =
        clean_text(error_[0] != '\0' ? error_ : curl_easy_strerror(code), CURL_ERROR_SIZE);
    std::string text = setup_.endpoint.shown + ": " + reason;
    const Options &options = setup_.options;
    if (has_expired(code))
        text += "; the certificate in cert_file \"" + options.cert_file + "\" has expired";
    else if (code == CURLE_PEER_FAILED_VERIFICATION && !options.ca_file.empty())
        text += "; it is checked with ca_file \"" + options.ca_file + "\"";
    describe(answer, name_of(code), text);
    return answer;
}

// An endpoint says that the relay's certificate is too old, or closes the connection without a
// word.
bool
Request::has_expired(CURLcode code) const
{
    return code != CURLE_COULDNT_RESOLVE_HOST && code != CURLE_COULDNT_CONNECT &&
           !setup_.cert.empty() && setup_.valid_until < std::time(nullptr);
}

Answer
Request::finish(CURLcode code)
{
    long status = 0;
    (void) curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
    // What is too long is not read to its end: the answer was there.
    const bool cut = code == CURLE_WRITE_ERROR && body_bytes_ > kMostBodyBytes;
    // libcurl takes a connection's end among the headers for theirs.
    if (code == CURLE_OK && !has_headers_)
        fault_ = "the answer ended among its headers";
    if ((code == CURLE_OK || cut) && status >= 200 && status == status_ && has_headers_)
        return answered(static_cast<int>(status));
    return failed(code == CURLE_OK ? CURLE_WEIRD_SERVER_REPLY : code);
}

} // namespace outbox::http
