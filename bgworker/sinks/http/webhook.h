// A webhook as a destination, for a single-threaded caller that must not wait.
#pragma once

#include "bgworker/engine/sink.h"

#include "effort.h"
#include "lanes.h"
#include "request.h"
#include "station.h"

#include <curl/curl.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

namespace outbox::http
{

// Sends each record as a request of its own; one of a topic and key at a time.
class Webhook final : public KeyedSink
{
public:
    // Null: libcurl or a descriptor could not be had. `station` must live as long as this. May
    // throw std::bad_alloc.
    static std::unique_ptr<Webhook> make(Station &station, std::size_t use);
    ~Webhook() override;
    Webhook(const Webhook &) = delete;
    Webhook &operator=(const Webhook &) = delete;

    ProduceResult produce(const Record &record, Failure &why) noexcept override;
    void send_now() noexcept override;
    std::size_t serve(SinkListener &listener, std::size_t max_events) noexcept override;
    int serve_within_ms() const noexcept override { return -1; } // the descriptor has a timer
    bool visit_begun(int age_ms,
                     const std::function<void(std::uint64_t tag)> &visit) const override;
    std::size_t outstanding() const noexcept override { return outstanding_; }
    void purge() noexcept override;
    bool fatal(Failure &why) const noexcept override;
    bool close(int timeout_ms) noexcept override;
    bool reachable(int) noexcept override { return station_.endpoint.last_answered(); }

private:
    struct MultiCleanup
    {
        void operator()(CURLM *multi) const noexcept { (void) curl_multi_cleanup(multi); }
    };
    struct Ended
    {
        Request *request;
        CURLcode code;
    };
    struct GivenUp
    {
        std::uint64_t tag;
        bool maybe_arrived;
    };

    Webhook(Station &station, std::size_t use) noexcept
        : station_(station), use_(use), effort_(steady_us())
    {
    }
    bool open();
    ProduceResult try_produce(const Record &record, Failure &why);

    // What libcurl wants to hear of.
    static int watch(CURL *easy, curl_socket_t fd, int what, void *self, void *known);
    static int set_timer(CURLM *multi, long timeout_ms, void *self);
    bool drive(std::size_t max_events);
    void act(curl_socket_t fd, int what);
    void collect();

    void start(std::int64_t now_us);
    void start_next(std::int64_t now_us);
    void make_ready();
    bool knows_address(std::int64_t now_us);
    void set_alarm(std::int64_t now_us, bool again);

    std::size_t settle(const Ended &ended, std::int64_t now_us, SinkListener &listener);
    std::size_t refuse(Lane &lane, Failure failure, SinkListener &listener);
    std::size_t blame(Lane &lane, Answer &answer, std::uint64_t started, std::int64_t now_us,
                      SinkListener &listener);
    void hold(Lane &lane, Answer &answer, std::int64_t wait_ms);
    void tell(const Failure &failure, std::int64_t wait_ms) noexcept;
    std::size_t report_given_up(std::size_t most, SinkListener &listener);
    std::size_t report_one(const GivenUp &one, SinkListener &listener);
    void release(Request &request) noexcept;
    void stop_all();
    void die(FailureClass cls, const char *name, const char *text) noexcept;

    Station &station_;
    const std::size_t use_;
    std::unique_ptr<CURLM, MultiCleanup> multi_;
    Lanes lanes_;
    std::vector<std::unique_ptr<Request>> requests_; // all there are
    std::vector<Request *> idle_;
    std::deque<Ended> ended_;
    std::deque<GivenUp> given_up_;
    List addresses_;
    std::string addresses_text_;
    std::int64_t timer_us_ = 0; // when libcurl wants to be called; 0: at no time
    Effort effort_;
    std::int64_t rest_until_us_ = 0; // 0: it does not rest
    std::size_t outstanding_ = 0;
    bool asking_ = false; // for the endpoint's address
    bool has_news_ = false;
    bool dead_ = false;
    Failure news_;  // not told yet
    Failure death_; // why it is dead
};

} // namespace outbox::http
