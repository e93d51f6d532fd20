// A simulated librdkafka behind the engine's Sink: an idempotent producer with
// enable.gapless.guarantee, and what bgworker/sinks/kafka adds to it (topics are asked about
// first).
#pragma once

#include "network.h"
#include "sim_sink.h"

#include "bgworker/engine/sink.h"

#include <deque>
#include <map>
#include <string>
#include <vector>

namespace outbox::sim
{

struct ProducerSettings
{
    int max_in_flight = 1;        // requests to a broker
    std::size_t max_records = 20; // of a batch
    std::size_t max_queued = 2000;
    std::size_t max_queued_bytes = SIZE_MAX;
    // The request that is ready when another one is refused goes out all the same, as librdkafka
    // alone has it; see bgworker/sinks/kafka/refused_connection.h.
    bool sends_ready = false;
};

// Hears of what a producer has given up, for the checker.
class ProducerWatch
{
public:
    virtual ~ProducerWatch() = default;
    // A record may be in Kafka although its producer does not say so, or will not say any more.
    virtual void in_doubt(int event) = 0;
    virtual void handed_over(int event, bool by_stream) = 0;
    // The engine has heard that it has arrived.
    virtual void acknowledged(int event) = 0;
    // The stream's producer sends nothing before all its requests are answered, or does again.
    virtual void drains(bool begun) = 0;
    // A destination that refuses records one by one has refused this one, or its topic.
    virtual void refused_alone(int event, bool topic) = 0;
    // The engine has heard that the destination asks never to be called again.
    virtual void is_left() = 0;
};

// How records tell their events: the value is the event's number, and two marks for brokers.
struct Payload
{
    int event = 0;
    int bytes = 0;
    bool invalid = false;
};

class Producer final : public Sink, public Sender, public SimSink
{
public:
    Producer(SimClock &clock, Random &random, Trace &trace, Cluster &cluster, Network &network,
             ProducerWatch &watch, const ProducerSettings &settings, ProducerId id,
             const char *name);
    ~Producer() override;

    ProduceResult produce(const Record &record, Failure &why) noexcept override;
    ProduceResult offer(const Record &record, Offer &offer, Failure &why) noexcept override;
    ProduceResult place(std::string_view topic, std::string_view key, Offer &offer,
                        Failure &why) noexcept override;
    void note_away() noexcept override;
    bool take_topics_changed() noexcept override;
    void send_now() noexcept override;
    std::size_t serve(SinkListener &listener, std::size_t max_events) noexcept override;
    int serve_within_ms() const noexcept override;
    std::size_t outstanding() const noexcept override { return outstanding_; }
    void purge() noexcept override;
    bool fatal(Failure &why) const noexcept override;
    bool close(int timeout_ms) noexcept override;
    bool reachable(int timeout_ms) noexcept override;

    void answered(std::uint64_t request, Answer answer) override;
    void disconnected(int broker) override;

    void advance() override;
    Time next_event_at() const override;
    bool has_news() const noexcept override { return news_; }

private:
    enum class TopicState
    {
        unknown,
        usable,
        refused
    };
    struct KnownTopic
    {
        TopicState state = TopicState::unknown;
        bool wanted = true;
        bool asked = false; // the question is on its way
        Time ask_at = 0;
        Time answer_at = 0;
        Time pause = 10 * kMs;
        Time unknown_since = 0;
        Time missing_since = 0; // of one that was usable
        Answer error = Answer::unknown_topic;
    };
    struct Queue
    {
        std::deque<Message> waiting;
        std::deque<Time> since; // of each
        std::uint64_t next_id = 1;
        std::uint64_t base_id = 1;
        std::int32_t epoch = 0;
        std::uint64_t acked_id = 0;
        int in_flight = 0; // requests
        bool drains = false;
        bool flushed = false; // what waits is not to wait for more
        Time not_before = 0;
        Time sent_at = 0;
        int leader = -1; // as far as is known here
        Time leaderless_since = 0;
    };
    struct Request
    {
        std::uint64_t number;
        int broker;
        Batch batch;
    };
    struct Report
    {
        bool delivered = false;
        Failure failure;
        std::vector<std::uint64_t> tags;
        std::vector<int> events; // of each
        std::vector<std::size_t> bytes;
    };

    static ProduceResult refuse_topic(KnownTopic &topic, Failure &why);
    KnownTopic &know(const std::string &topic);
    bool has_queued(const std::string &topic) const;
    void describe_topics();
    void learn(const std::string &name, KnownTopic &topic);
    void learn_leaders(const std::string &topic);
    void refresh_soon();
    ProduceResult put(const Record &record, std::int32_t partition);
    void send_some();
    void set_drains(bool drains);
    Time ready_at(const Queue &queue) const;
    void send_batch(const Place &place, Queue &queue);
    void send_ready(int broker);
    std::size_t requests_to(int broker) const;
    void report(const std::vector<Message> &messages, const Failure *failure);
    void give_up(Queue &queue, const Failure &failure);
    void purge_queued();
    void retry(Queue &queue, const Batch &batch, Time pause);
    void die(const char *name, bool consequence);
    void refuse(Queue &queue, const Batch &batch, Answer answer);
    void accept(Queue &queue, const Batch &batch);
    void drop_missing(const std::string &topic);
    static Failure failure_of(Answer answer);

    SimClock &clock_;
    Random &random_;
    Trace &trace_;
    Cluster &cluster_;
    Network &network_;
    ProducerWatch &watch_;
    const ProducerSettings settings_;
    const ProducerId id_;
    const char *const name_;

    Time connected_at_; // kNever: not yet
    Time connect_at_;
    std::int32_t epoch_ = 0;
    bool bumps_ = false;  // the epoch, once nothing is in flight
    bool drains_ = false; // for that
    std::map<std::string, KnownTopic> topics_;
    std::map<Place, Queue> queues_;
    std::vector<Request> requests_;
    std::deque<Report> reports_;
    std::deque<Failure> troubles_;
    std::map<int, Time> reconnect_at_;
    bool told_all_down_ = false;
    Time refresh_at_ = kNever;
    Time purge_at_ = kNever; // a broker's thread hears of the purge
    std::size_t outstanding_ = 0;
    std::size_t queued_bytes_ = 0;
    Time away_at_ = 0;
    bool topics_changed_ = false;
    bool news_ = true;
    bool dead_ = false;
    bool closed_ = false;
    Failure fatal_;
};

// The partition of a key.
std::int32_t partition_of(std::string_view key) noexcept;

} // namespace outbox::sim
