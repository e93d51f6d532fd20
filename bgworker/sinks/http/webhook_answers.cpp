// What becomes of records when requests have ended.
#include "webhook.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>

namespace outbox::http
{

namespace
{

// Others must have been served so often between two attempts of an event until it is to blame.
constexpr int kBlames = 3;

std::uint64_t
random_number()
{
    static std::mt19937_64 *const generator = new std::mt19937_64(std::random_device{}());
    return (*generator)();
}

} // namespace

void
Webhook::tell(const Failure &failure, std::int64_t wait_ms) noexcept
{
    if (wait_ms < 0)
        return;
    news_ = failure;
    news_.cls = FailureClass::retriable;
    news_.summary = true;
    news_.retry_after_ms = static_cast<int>(std::min<std::int64_t>(wait_ms, 1 << 30));
    has_news_ = true;
}

// The endpoint waits, and the record with it, as the first of all.
void
Webhook::hold(Lane &lane, Answer &answer, std::int64_t wait_ms)
{
    lanes_.put_first(lane);
    tell(answer.failure, wait_ms);
}

// The first one of the lane was refused; nothing of its key may go out before somebody has decided.
std::size_t
Webhook::refuse(Lane &lane, Failure failure, SinkListener &listener)
{
    const Queue queue = lanes_.end(lane);
    std::size_t count = 1;
    outstanding_--;
    listener.failed(queue.front().tag, failure);
    for (auto behind = std::next(queue.begin()); behind != queue.end(); ++behind)
        count += report_one({behind->tag, false}, listener);
    return count;
}

// Trouble that may be the endpoint's, or the event's: it is the event's when it meets it again and
// again while others are served.
std::size_t
Webhook::blame(Lane &lane, Answer &answer, std::uint64_t started, std::int64_t now_us,
               SinkListener &listener)
{
    EndpointState &endpoint = station_.endpoint;
    Pending &pending = lane.first();
    const bool first = pending.backoff.failures() == 0;
    if (!first && endpoint.served() > pending.served_before)
        pending.blames++;
    pending.served_before = endpoint.served();
    const std::int64_t own_ms = pending.backoff.fail(random_number());
    const std::int64_t wait_ms = endpoint.trouble(started, first, now_us, random_number());
    if (pending.blames >= kBlames && endpoint.mostly_well())
    {
        answer.failure.cls = FailureClass::event;
        (void) std::snprintf(answer.failure.hint, sizeof answer.failure.hint,
                             "Other events were answered well meanwhile.");
        return refuse(lane, answer.failure, listener);
    }
    lanes_.put_off(lane, now_us + own_ms * 1000);
    tell(answer.failure, wait_ms < 0 ? wait_ms : std::max(wait_ms, own_ms));
    return 0;
}

std::size_t
Webhook::settle(const Ended &ended, std::int64_t now_us, SinkListener &listener)
{
    EndpointState &endpoint = station_.endpoint;
    Request &request = *ended.request;
    Lane &lane = *request.lane;
    const std::uint64_t started = request.started;
    Answer answer = request.finish(ended.code);
    release(request);
    switch (answer.outcome)
    {
    case Outcome::delivered:
    {
        if (endpoint.answered(true))
            lanes_.wake_all();
        const std::uint64_t tag = lane.first().tag;
        lanes_.settle_first(lane);
        outstanding_--;
        listener.delivered(tag);
        return 1;
    }
    case Outcome::refused:
        if (endpoint.answered(false))
            lanes_.wake_all();
        answer.failure.cls = FailureClass::event;
        return refuse(lane, answer.failure, listener);
    case Outcome::gone:
    {
        endpoint.close(true);
        answer.failure.cls = FailureClass::gone;
        dead_ = true;
        death_ = answer.failure;
        const std::size_t count = refuse(lane, answer.failure, listener);
        stop_all();
        return count;
    }
    case Outcome::busy:
        hold(lane, answer, endpoint.busy(started, answer.retry_after_ms, now_us, random_number()));
        return 0;
    case Outcome::unreachable:
        station_.resolver.forget();
        hold(lane, answer, endpoint.unreachable(started, now_us, random_number()));
        return 0;
    case Outcome::trouble:
        return blame(lane, answer, started, now_us, listener);
    }
    return 0;
}

} // namespace outbox::http
