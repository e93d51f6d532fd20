// The half of the courier that hears what the server and the streams answer.
#include "courier.h"

#include "text.h"

#include <nats/nats.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <string_view>
#include <utility>

namespace outbox::nats
{

namespace
{

// More answers than there can be questions are of nobody who was asked.
constexpr std::size_t kMaxAnswers = 20000;
constexpr std::size_t kMaxProhibitions = 64;

} // namespace

// Without the secrets that it may repeat, before it is cut or shown.
Answer
Courier::answer_of(natsMsg *message) const noexcept
{
    Answer answer = read_answer(
        {natsMsg_GetData(message), static_cast<std::size_t>(natsMsg_GetDataLength(message))});
    client_.mask(answer.description,
                 std::strlen(answer.description) + 4 >= sizeof answer.description);
    return answer;
}

void
Courier::hear_answer(natsMsg *message)
{
    std::uint64_t token = 0;
    const char *subject = natsMsg_GetSubject(message);
    if (subject == nullptr || !read_token(subject, inbox_, token))
        return client_.note_unasked();
    if (token == 0)
        return hear_information(message);
    const Parcel *parcel = flights_.find(token);
    if (parcel == nullptr)
        return client_.note_unasked();
    client_.note_answer(static_cast<std::size_t>(natsMsg_GetDataLength(message)));
    flights_.note_heard(now_);
    if (natsMsg_IsNoResponders(message))
    {
        judge(token, judge_no_responders(parcel->subject));
        return ask_about_jetstream();
    }
    const Answer answer = answer_of(message);
    const Judgement judgement = judge_answer(parcel->subject, settings_.stream, answer);
    if (judgement.reach != Reach::none)
        return judge(token, judgement);
    flights_.stored(token);
    is_outage_ = false;
    is_well_ = true;
}

// While JetStream or the stream is gone, that is why nobody answers.
void
Courier::judge(std::uint64_t token, Judgement judgement)
{
    if (is_outage_ && judgement.reach == Reach::subject)
    {
        judgement.reach = Reach::destination;
        judgement.failure = outage_;
    }
    const bool was_in_trouble = flights_.is_in_trouble();
    const std::int64_t retry_at = flights_.retry_at();
    flights_.refused(token, judgement, now_, random());
    is_well_ = !flights_.is_in_trouble();
    if (judgement.reach != Reach::destination ||
        (was_in_trouble && flights_.retry_at() == retry_at))
        return;
    tell_trouble(judgement.failure, flights_.retry_at());
}

// Nobody answers for a subject: because of the subject, or because there is no JetStream, or not
// the stream that everything has to go to?
void
Courier::ask_about_jetstream()
{
    if (now_ - asked_at_ < kAskAgainMs)
        return;
    asked_at_ = now_;
    const std::string subject =
        settings_.stream.empty() ? "$JS.API.INFO" : "$JS.API.STREAM.INFO." + settings_.stream;
    client_.ask(subject.c_str(), (inbox_ + ".0").c_str());
}

void
Courier::hear_information(natsMsg *message)
{
    const Answer answer = answer_of(message);
    const Judgement judgement = natsMsg_IsNoResponders(message)
                                    ? judge_no_jetstream()
                                    : judge_information(settings_.stream, answer);
    const bool was_outage = std::exchange(is_outage_, judgement.reach == Reach::destination);
    if (!is_outage_)
        return;
    outage_ = judgement.failure;
    flights_.keep_all();
    if (was_outage || flights_.is_in_trouble())
        return;
    flights_.trouble(now_, random());
    tell_trouble(outage_, flights_.retry_at());
}

// 'Permissions Violation for Publish to "subject"', of which libnats keeps 255 bytes.
void
Courier::hear_prohibition(const std::string &text)
{
    constexpr std::string_view kBefore = "publish to \"";
    const char *at = ::strcasestr(text.c_str(), kBefore.data());
    if (at == nullptr)
    {
        no_answers_ = text; // it is of the inbox
        blank_controls(no_answers_.data());
        client_.mask(no_answers_.data(), true);
        no_answers_.resize(std::strlen(no_answers_.c_str()));
        return;
    }
    std::string_view subject = at + kBefore.size();
    const bool cut = subject.empty() || subject.back() != '"';
    if (!cut)
        subject.remove_suffix(1);
    flights_.note_heard(now_);
    flights_.not_permitted(subject, cut, now_, random());
}

void
Courier::answered(natsMsg *message) noexcept
{
    bool first = false;
    try
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        first = answers_.empty();
        if (answers_.size() < kMaxAnswers)
        {
            answers_.push_back(message);
            message = nullptr;
        }
    }
    catch (const std::exception &)
    {
        // As if it had been lost on the way: the message is sent again.
    }
    natsMsg_Destroy(message);
    if (first)
        wake();
}

void
Courier::not_permitted(const char *text) noexcept
{
    try
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (prohibitions_.size() < kMaxProhibitions)
            prohibitions_.emplace_back(text);
    }
    catch (const std::exception &)
    {
        // The message counts as not acknowledged in time.
    }
    wake();
}

} // namespace outbox::nats
