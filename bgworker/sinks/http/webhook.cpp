#include "webhook.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cstring>
#include <exception>

namespace outbox::http
{

namespace
{

constexpr const char *kOutOfMemory = "no memory is left for a request";

} // namespace

std::unique_ptr<Webhook>
Webhook::make(Station &station, std::size_t use)
{
    std::unique_ptr<Webhook> sink(new Webhook(station, use));
    return sink->open() ? std::move(sink) : nullptr;
}

bool
Webhook::open()
{
    static const bool ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
    if (!ready)
        return false;
    multi_.reset(curl_multi_init());
    if (!multi_)
        return false;
    station_.add_sink(use_);
    CURLM *multi = multi_.get();
    const long most = station_.setup.options.max_in_flight;
    requests_.reserve(static_cast<std::size_t>(most));
    idle_.reserve(static_cast<std::size_t>(most));
    station_.endpoint.close(false);
    return curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, watch) == CURLM_OK &&
           curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, this) == CURLM_OK &&
           curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, set_timer) == CURLM_OK &&
           curl_multi_setopt(multi, CURLMOPT_TIMERDATA, this) == CURLM_OK &&
           curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, most) == CURLM_OK &&
           curl_multi_setopt(multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, most) == CURLM_OK &&
           curl_multi_setopt(multi, CURLMOPT_MAX_CONCURRENT_STREAMS, most) == CURLM_OK;
}

Webhook::~Webhook()
{
    static_cast<void>(close(0));
}

ProduceResult
Webhook::produce(const Record &record, Failure &why) noexcept
{
    try
    {
        return try_produce(record, why);
    }
    catch (const std::exception &)
    {
        set_failure(why, FailureClass::retriable, "NO_MEMORY", "%s", kOutOfMemory);
        return ProduceResult::failed;
    }
}

ProduceResult
Webhook::try_produce(const Record &record, Failure &why)
{
    const Setup &setup = station_.setup;
    if (fatal(why))
        return ProduceResult::failed;
    // The engine keeps to these limits by its own count, which falls later than ours.
    const std::size_t bytes = size_in_flight(record);
    const bool full = (setup.max_records > 0 && lanes_.count() >= 2 * setup.max_records) ||
                      (setup.max_bytes > 0 && lanes_.bytes() + bytes > 2 * setup.max_bytes);
    if (full && outstanding_ > 0)
        return ProduceResult::queue_full;
    Queue one;
    Pending &pending = one.emplace_back();
    if (!make_message(record, setup.options.format, pending.message, why))
        return ProduceResult::failed;
    pending.tag = record.tag;
    pending.bytes = bytes;
    pending.backoff.configure(setup.backoff_initial_ms, setup.backoff_max_ms);
    lanes_.add(record.topic, record.key, std::move(one));
    outstanding_++;
    return ProduceResult::queued;
}

void
Webhook::send_now() noexcept
{
    try
    {
        const std::int64_t before_us = worked_us();
        const std::int64_t now_us = steady_us();
        start(now_us);
        effort_.take(worked_us() - before_us);
        set_alarm(now_us, false);
    }
    catch (const std::exception &)
    {
        die(FailureClass::fatal, "NO_MEMORY", kOutOfMemory);
    }
}

std::size_t
Webhook::serve(SinkListener &listener, std::size_t max_events) noexcept
{
    std::size_t count = 0;
    try
    {
        const std::int64_t before_us = worked_us();
        const bool more = drive(max_events);
        const std::int64_t now_us = steady_us();
        while (!ended_.empty() && count < max_events)
        {
            const Ended ended = ended_.front();
            ended_.pop_front();
            count += settle(ended, now_us, listener);
        }
        count += report_given_up(max_events > count ? max_events - count : 1, listener);
        lanes_.wake(now_us);
        start(now_us);
        make_ready();
        if (std::exchange(has_news_, false))
            listener.trouble(news_);
        effort_.take(worked_us() - before_us);
        set_alarm(now_us, more);
    }
    catch (const std::exception &)
    {
        die(FailureClass::fatal, "NO_MEMORY", kOutOfMemory);
    }
    return count;
}

void
Webhook::purge() noexcept
{
    try
    {
        stop_all();
        set_alarm(steady_us(), false);
    }
    catch (const std::exception &)
    {
        die(FailureClass::fatal, "NO_MEMORY", kOutOfMemory);
    }
}

bool
Webhook::visit_begun(int age_ms, const std::function<void(std::uint64_t tag)> &visit) const
{
    const std::int64_t before_us = steady_us() - std::int64_t{age_ms} * 1000;
    const auto look = [&](const Lane &lane)
    {
        if (lane.first().begun_us <= before_us)
            visit(lane.first().tag);
    };
    for (const auto &request : requests_)
        if (request->lane != nullptr)
            look(*request->lane);
    lanes_.visit_waiting(look);
    return true;
}

// All that is queued or on its way is given up, to be reported.
void
Webhook::stop_all()
{
    for (const auto &request : requests_)
        if (request->lane != nullptr)
        {
            given_up_.push_back({request->lane->first().tag, true});
            request->lane->queue.pop_front();
            release(*request);
        }
    ended_.clear();
    for (const Pending &pending : lanes_.end_all())
        given_up_.push_back({pending.tag, false});
}

bool
Webhook::fatal(Failure &why) const noexcept
{
    if (dead_)
        why = death_;
    return dead_;
}

void
Webhook::die(FailureClass cls, const char *name, const char *text) noexcept
{
    if (dead_)
        return;
    set_failure(death_, cls, name, "%s", text);
    dead_ = true;
}

bool
Webhook::close(int) noexcept
{
    if (!multi_)
        return true;
    for (const auto &request : requests_)
        if (request->lane != nullptr)
            release(*request);
    station_.wait(use_, false);
    station_.wake_others(use_);
    requests_.clear();
    multi_.reset();
    station_.wakes[use_].arm(0);
    station_.remove_sink(use_);
    return true;
}

// It is nobody's any more.
void
Webhook::release(Request &request) noexcept
{
    (void) curl_multi_remove_handle(multi_.get(), request.easy());
    request.lane = nullptr;
    request.reset();
    idle_.push_back(&request); // has its place since open()
    station_.endpoint.ended();
}

std::size_t
Webhook::report_one(const GivenUp &one, SinkListener &listener)
{
    Failure failure;
    set_failure(failure, FailureClass::retriable, "GIVEN_UP", "given up before it was answered");
    failure.consequence = true;
    failure.possibly_persisted = one.maybe_arrived;
    outstanding_--;
    listener.failed(one.tag, failure);
    return 1;
}

std::size_t
Webhook::report_given_up(std::size_t most, SinkListener &listener)
{
    std::size_t count = 0;
    while (!given_up_.empty() && count < most)
    {
        const GivenUp one = given_up_.front();
        given_up_.pop_front();
        count += report_one(one, listener);
    }
    return count;
}

} // namespace outbox::http
