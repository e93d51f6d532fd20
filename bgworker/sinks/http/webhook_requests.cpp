// Requests begin here, and libcurl is told when it may go on.
#include "webhook.h"

#include <sys/epoll.h>

#include <algorithm>
#include <ctime>
#include <new>

namespace outbox::http
{

namespace
{

constexpr int kAtOnce = 64;
// How soon it is looked whether a look-up takes too long.
constexpr std::int64_t kAskingUs = 1000000;

} // namespace

int
Webhook::watch(CURL *, curl_socket_t fd, int what, void *self, void *)
{
    auto &sink = *static_cast<Webhook *>(self);
    std::uint32_t events = 0;
    if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
        events |= EPOLLIN;
    if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
        events |= EPOLLOUT;
    return sink.station_.wakes[sink.use_].want(fd, events) ? 0 : -1;
}

int
Webhook::set_timer(CURLM *, long timeout_ms, void *self)
{
    static_cast<Webhook *>(self)->timer_us_ =
        timeout_ms < 0 ? 0 : steady_us() + std::int64_t{timeout_ms} * 1000;
    return 0;
}

void
Webhook::act(curl_socket_t fd, int what)
{
    int running = 0;
    CURLMcode code = CURLM_OK;
    {
        const Cutter::Watch watch(station_.wakes[use_].cutter);
        code = curl_multi_socket_action(multi_.get(), fd, what, &running);
        if (watch.was_cut())
            for (const auto &request : requests_)
                if (request->lane != nullptr)
                    request->note_cut();
    }
    if (code == CURLM_OUT_OF_MEMORY)
        throw std::bad_alloc();
    if (code != CURLM_OK && code != CURLM_BAD_SOCKET)
        die(FailureClass::fatal, "CURL", curl_multi_strerror(code));
}

// Lets libcurl do what it can without waiting. Returns whether there is more.
bool
Webhook::drive(std::size_t max_events)
{
    Wakes &wakes = station_.wakes[use_];
    epoll_event events[kAtOnce];
    std::size_t seen = 0;
    int count = 0;
    do
    {
        count = epoll_wait(wakes.epoll(), events, kAtOnce, 0);
        for (int i = 0; i < count; i++)
        {
            const int fd = events[i].data.fd;
            const unsigned what = events[i].events;
            if (fd == wakes.timer() || fd == wakes.wake_up())
                wakes.reset(fd);
            else
                act(fd, ((what & EPOLLIN) != 0 ? CURL_CSELECT_IN : 0) |
                            ((what & EPOLLOUT) != 0 ? CURL_CSELECT_OUT : 0) |
                            ((what & (EPOLLERR | EPOLLHUP)) != 0 ? CURL_CSELECT_ERR : 0));
        }
        seen += static_cast<std::size_t>(std::max(count, 0));
    } while (count == kAtOnce && seen < max_events);
    // libcurl asks for a turn at once when it has not read all, so that waits for the end of a
    // rest.
    if (timer_us_ != 0 && steady_us() >= std::max(timer_us_, rest_until_us_))
    {
        timer_us_ = 0;
        act(CURL_SOCKET_TIMEOUT, 0);
    }
    collect();
    return count == kAtOnce;
}

// Requests that have ended.
void
Webhook::collect()
{
    int left = 0;
    while (const CURLMsg *message = curl_multi_info_read(multi_.get(), &left))
    {
        if (message->msg != CURLMSG_DONE)
            continue;
        char *self = nullptr;
        (void) curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &self);
        ended_.push_back({reinterpret_cast<Request *>(self), message->data.result});
    }
}

// Whether the endpoint's address is known; when it cannot be, that is trouble.
bool
Webhook::knows_address(std::int64_t now_us)
{
    const Resolver::State state = station_.resolver.look(now_us);
    asking_ = state == Resolver::State::asking;
    if (state == Resolver::State::failed)
    {
        Failure failure;
        set_failure(failure, FailureClass::retriable, "RESOLVE",
                    "the host of %s could not be looked up: %s",
                    station_.setup.endpoint.shown.c_str(), station_.resolver.error().c_str());
        const std::uint64_t random = static_cast<std::uint64_t>(now_us) * 0x9e3779b97f4a7c15u;
        const std::uint64_t started = station_.endpoint.started();
        station_.endpoint.ended();
        tell(failure, station_.endpoint.unreachable(started, now_us, random >> 20));
    }
    if (state != Resolver::State::known)
        return false;
    if (addresses_text_ != station_.resolver.addresses())
    {
        addresses_text_ = station_.resolver.addresses();
        addresses_.reset(curl_slist_append(nullptr, addresses_text_.c_str()));
        if (!addresses_)
        {
            addresses_text_.clear();
            throw std::bad_alloc();
        }
    }
    return true;
}

// So that the next event to commit does not wait for that. While requests follow one another, all
// of them are in use.
void
Webhook::make_ready()
{
    if (!idle_.empty())
        (void) idle_.back()->open();
}

void
Webhook::start_next(std::int64_t now_us)
{
    if (idle_.empty())
    {
        requests_.push_back(std::make_unique<Request>(station_, station_.wakes[use_]));
        idle_.push_back(requests_.back().get());
    }
    Request &request = *idle_.back();
    Lane *lane = lanes_.take();
    if (!request.prepare(lane->first().message, addresses_.get(), std::time(nullptr)) ||
        curl_multi_add_handle(multi_.get(), request.easy()) != CURLM_OK)
    {
        lanes_.put_first(*lane);
        throw std::bad_alloc();
    }
    idle_.pop_back();
    request.lane = lane;
    request.started = station_.endpoint.started();
    effort_.add_request(lane->first().message.body.size());
    station_.note_begun(use_);
    Pending &pending = lane->first();
    pending.begun_us = pending.begun_us != 0 ? pending.begun_us : now_us;
}

void
Webhook::start(std::int64_t now_us)
{
    station_.wait(use_, false);
    asking_ = false;
    if (dead_)
        return;
    bool begun = false;
    while (lanes_.has_ready() && station_.share(use_, now_us) > 0 && knows_address(now_us))
    {
        start_next(now_us);
        begun = true;
    }
    // What can be written at once is.
    if (begun)
    {
        timer_us_ = 0;
        act(CURL_SOCKET_TIMEOUT, 0);
        collect();
    }
    station_.wait(use_, lanes_.has_ready() && !asking_ && station_.endpoint.due(now_us) == 0);
    if (station_.endpoint.may_start(now_us) > 0)
        station_.wake_others(use_);
}

// When serve() has to be called next; `again`: as soon as can be.
void
Webhook::set_alarm(std::int64_t now_us, bool again)
{
    const bool at_once = again || !ended_.empty() || !given_up_.empty() || has_news_;
    std::int64_t due = at_once ? 1 : 0;
    const auto sooner = [&](std::int64_t other)
    {
        if (other > 0 && (due == 0 || other < due))
            due = other;
    };
    rest_until_us_ = effort_.rest_until(now_us);
    sooner(rest_until_us_);
    sooner(timer_us_ == 0 ? 0 : std::max(timer_us_, rest_until_us_));
    sooner(lanes_.next_due());
    if (lanes_.has_ready())
        sooner(station_.endpoint.due(now_us));
    if (asking_)
        sooner(now_us + kAskingUs);
    Wakes &wakes = station_.wakes[use_];
    wakes.rest(rest_until_us_ != 0);
    if (!wakes.settle())
        die(FailureClass::fatal, "NO_DESCRIPTOR", "a connection could not be waited for");
    wakes.arm(due);
}

} // namespace outbox::http
