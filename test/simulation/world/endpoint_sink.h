// A simulated sink that refuses records one by one, as one of webhooks does: an endpoint that takes
// one record a request, over some connections at a time, and one of a key.
#pragma once

#include "network.h"
#include "producer.h"
#include "sim_sink.h"

#include "bgworker/engine/common/backoff.h"
#include "bgworker/engine/sink.h"

#include <array>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace outbox::sim
{

struct EndpointSettings
{
    bool used = false;
    std::size_t max_queued = 2000;
    std::size_t max_requests = 8;
    std::int64_t backoff_initial_ms = 100;
    std::int64_t backoff_max_ms = 1000;
    int dies = 0;      // of a hundred connections that break, so many end it
    int slow_key = -1; // each record of which takes five seconds
};

class EndpointSink final : public KeyedSink, public SimSink
{
public:
    EndpointSink(SimClock &clock, Random &random, Trace &trace, Network &network,
                 ProducerWatch &watch, const EndpointSettings &settings, ProducerId id,
                 const char *name);
    ~EndpointSink() override { (void) close(0); }

    ProduceResult produce(const Record &record, Failure &why) noexcept override;
    void send_now() noexcept override {}
    std::size_t serve(SinkListener &listener, std::size_t max_events) noexcept override;
    int serve_within_ms() const noexcept override { return -1; }
    bool visit_begun(int age_ms,
                     const std::function<void(std::uint64_t tag)> &visit) const override;
    std::size_t outstanding() const noexcept override { return outstanding_; }
    void purge() noexcept override;
    bool fatal(Failure &why) const noexcept override;
    bool close(int timeout_ms) noexcept override;
    bool reachable(int) noexcept override { return !is_failing() || outstanding_ == 0; }

    void advance() override;
    Time next_event_at() const override;
    bool has_news() const noexcept override { return news_; }

private:
    using Key = std::pair<std::string, std::string>; // topic and key
    // Requests of a connection are answered in order; those of several are not.
    struct Connection final : Sender
    {
        EndpointSink *sink = nullptr;
        void answered(std::uint64_t request, Answer answer) override
        {
            sink->answered(request, answer);
        }
        void disconnected(int) override { sink->lose_connection(); }
    };
    struct Lane
    {
        std::deque<Message> waiting; // the first one is on its way if there is a request
        bool on_its_way = false;
        Time begun_at = kNever; // with the first one, which may have met trouble since
        bool refused = false;   // and nothing is sent until that is reported
    };
    struct Report
    {
        enum class Kind
        {
            delivered,
            refused,
            never_again,
            trouble
        };
        Kind kind = Kind::delivered;
        Key lane;
        Message message;
        Failure failure;
    };
    struct Request
    {
        std::uint64_t number;
        Key lane;
    };

    void answered(std::uint64_t request, Answer answer);
    void lose_connection();
    bool is_failing() const noexcept { return backoff_.failures() > 0; }
    bool may_send() const noexcept;
    void send(const Key &key, Lane &lane);
    void refuse(Lane &lane, const Key &key, Answer answer);
    void die();
    std::size_t report_refusal(SinkListener &listener, const Report &report);
    std::size_t report_end(SinkListener &listener, const Report &report);
    std::size_t give_up_all(SinkListener &listener);
    void drop(const Message &message);

    SimClock &clock_;
    Random &random_;
    Trace &trace_;
    Network &network_;
    ProducerWatch &watch_;
    const EndpointSettings settings_;
    const ProducerId id_;
    const char *const name_;
    std::array<Connection, 3> connections_;
    std::map<Key, Lane> lanes_;
    std::vector<Request> requests_;
    std::deque<Report> reports_;
    Backoff backoff_;
    Time attempt_at_ = 0;
    std::size_t outstanding_ = 0;
    bool dead_ = false;   // by itself
    bool left_ = false;   // and that is because it may not be called again
    bool purged_ = false; // or by its user
    bool closed_ = false;
    bool news_ = true;
};

} // namespace outbox::sim
