// Events that Kafka refused, and the lines behind them: what is tried again when, and what follows.
#pragma once

#include "bgworker/core/lanes.h"
#include "bgworker/kafka/kafka_setup.h"

#include "bgworker/records/event_record.h"
#include "bgworker/relay/stats.h"
#include "delivery_store.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace outbox
{

struct FailurePolicy
{
    int max_attempts;
    bool block;
    int64 backoff_initial_ms;
    int64 backoff_max_ms;
};

// What goes out besides the stream of new events, through a producer of its own: whatever it meets
// there, the stream does not notice. An event that was refused is tried alone in its partition; a
// line that nothing blocks goes out in groups, all lanes in turn. Lives as long as the process; its
// methods run in a transaction with an active snapshot unless said otherwise.
//
//     blocked ── its head was published, or settled ──▶ releasing ── nothing waits any more ──▶
//     closing
//        ▲                                                 │  ▲ │ └────────── an event of it was
//        refused ───────────┘  └──── something joined, or is late ──┤
//                                                                                 acknowledged ──▶
//                                                                                 clear
class Redelivery final : public kafka::EventSink
{
public:
    explicit Redelivery(Stats &stats); // throws std::bad_alloc

    // What its producer is made from, and what that writes to. Must live as long as this.
    void use(const KafkaSetup *setup, int wake_fd) noexcept;
    void drop_producer(int wait_ms) noexcept;

    // Hears its producer. `may_judge`: Kafka can be reached, so that what is late is so by itself.
    // No transaction. Returns true when there was something.
    bool serve(TimestampTz now, bool may_judge);
    std::size_t outstanding() const noexcept { return producer_ ? producer_->outstanding() : 0; }

    // The table was changed by an operator or the relay. No transaction.
    void reload_soon() noexcept { reload_ = true; }
    // The lines were changed as well.
    void reload_lines_soon() noexcept
    {
        reload_lines_ = true;
        reload_ = true;
    }
    // All that is on its way is dropped, and counts as not sent. No transaction.
    void give_up_in_flight() noexcept;

    // Whether an event of this lane has to wait: in the table, or in memory as its line ends just
    // now. No transaction.
    enum class Wait
    {
        none,
        park,
        hold
    };
    Wait wait_of(Lane lane) const noexcept
    {
        const Lanes::State state = lanes_.state(lane);
        return state == Lanes::State::clear     ? Wait::none
               : state == Lanes::State::closing ? Wait::hold
                                                : Wait::park;
    }
    bool is_empty() const noexcept { return lanes_.size() == 0; }

    struct Refusal
    {
        const kafka::Failure &failure;
        Lane lane = 0; // of the partition that is refused; 0: what the failure's class says
        bool from_stream = true;
        int attempts_before = 0;
        std::uint64_t barrier = 0; // see Line
    };
    // Sets a refused event aside. One that comes from the stream of new events joins the line when
    // its topic or key has one; others are the head of theirs. Returns the lane that it is in.
    Lane refuse(const EventRow &event, const EventLine &line, const Refusal &refusal,
                const FailurePolicy &policy);
    // Sets an event of the stream aside that has to wait in this lane.
    void park(const EventRow &event, const EventLine &line, Lane lane);
    // Sets one aside that was refused together with others of its partition, whose lane this is.
    void suspect(const EventRow &event, const EventLine &line, Lane lane);
    // So many were: the culprit is looked for among them.
    void isolate(Lane lane, std::size_t suspects, std::uint64_t barrier);

    // Events of the stream that were set aside while they are in its producer's queue. Until that
    // has given them up, or Kafka has acknowledged them, their lane stays blocked. No
    // transaction.
    void set_afloat(Lane lane);
    // Sets one of these aside. Returns the lane that it is in.
    Lane set_aside_stuck(const EventRow &event, const EventLine &line,
                         const kafka::Failure &failure, Lane partition,
                         const FailurePolicy &policy);
    // One of them is not any more. No transaction.
    void landed(Lane lane, std::int64_t seq, bool delivered) noexcept;

    // Whether an event has a row that nothing waits for: an operator has settled it, or its key
    // flows although it was refused. Only asked of events that are read again after a restart.
    bool is_settled(std::int64_t seq) const;
    // After a start the stream may meet events that belong before those of the table: up to here.
    std::int64_t last_at_start() const noexcept { return last_at_start_; }

    // Notes what has come back, tries what is due, and releases lines. All before the stream's
    // `first_tag` is acknowledged. Returns true when there is more to do at once.
    bool step(EventTables *tables, const FailurePolicy &policy, std::uint64_t first_tag,
              bool may_send, TimestampTz now);
    // Whether step() has something to do, and when at the latest; -1: when the producer has news.
    // No transaction.
    bool has_work(TimestampTz now) const noexcept;
    long wait_ms(TimestampTz now) const noexcept;

    std::size_t in_flight() const noexcept { return kMaxInFlight - free_.size(); }
    bool paused() const noexcept { return paused_; }
    // Events published, and when the last one was.
    std::uint64_t published() const noexcept { return published_; }
    TimestampTz last_published_at() const noexcept { return published_at_; }
    // How often a batch was too large for its topic although no event of it was; and events that
    // were too large alone.
    int oversized_batches() const noexcept { return oversized_batches_; }
    std::uint64_t oversized_events() const noexcept { return oversized_events_; }

    void batch(std::size_t records) noexcept override { batch_ = records; }
    void delivered(std::uint64_t tag) noexcept override;
    void failed(std::uint64_t tag, const kafka::Failure &failure) noexcept override;
    void trouble(const kafka::Failure &) noexcept override {}
    void log(int, const char *, const char *) noexcept override {}

private:
    static constexpr std::size_t kMaxInFlight = 2048;

    enum class Send
    {
        sent,
        moved,   // to another lane
        gone,    // with its slot
        refused, // before it was queued
        later
    };

    struct Sent
    {
        DeliveryRow row = {};
        Acknowledged event;
        Lane partition = 0;
        bool used = false;
        TimestampTz at = 0;
        std::string topic; // of an attempt
    };

    // Who uses a partition: lines together, or one alone.
    struct Use
    {
        std::uint32_t count = 0;
        bool exclusive = false;
    };

    struct Refused
    {
        DeliveryRow row;
        kafka::Failure failure;
        Lane partition;
    };

    class Gate;

    // Rows that somebody holds stay in delivered_, and so count.
    std::size_t room() const noexcept
    {
        return std::min(free_.size(), kMaxInFlight - std::min(kMaxInFlight, delivered_.size()));
    }
    void load();
    void load_lines();
    void look_at_lanes();
    void note_results(EventTables *tables, const FailurePolicy &policy);
    void note_revived();
    void note_refused(EventTables *tables, const FailurePolicy &policy);
    Lane lane_of(const EventLine &line, Lane partition) const noexcept;
    void give_back(std::size_t slot) noexcept;
    void watch_dead(TimestampTz now, bool may_judge);
    bool connect();
    bool is_delivered(std::int64_t seq) const noexcept;
    bool is_ready(const Line &line, std::uint64_t first_tag) const noexcept;
    ArrayType *seqs_in_flight(const Lane *lane) const;
    ArrayType *unready_lanes(std::uint64_t first_tag);
    bool try_due(EventTables *tables, std::uint64_t first_tag, TimestampTz now);
    Send try_one(const DeliveryRow &due, EventTables *tables);
    bool release(Lane lane, EventTables *tables, TimestampTz now);
    bool release_lanes(EventTables *tables, std::uint64_t first_tag, TimestampTz now);
    bool finish(Lane lane, Line &line, TimestampTz now);
    Send send(const DeliveryRow &row, bool attempt, EventTables *tables);
    void note_sent(const DeliveryRow &row, const EventRow &event, const EventLine &line,
                   const kafka::Record &record, const Gate &gate, bool attempt, std::size_t slot);

    Stats &stats_;
    const KafkaSetup *setup_ = nullptr;
    int wake_fd_ = -1;
    std::unique_ptr<kafka::Producer> producer_;
    TimestampTz dead_since_ = 0; // 0: it is not
    TimestampTz connect_at_ = 0; // not before
    TimestampTz idle_since_ = 0;

    Lanes lanes_;
    std::vector<Sent> sent_; // by tag
    std::vector<std::uint16_t> free_;
    std::unordered_map<Lane, Use> uses_; // of partitions
    std::vector<std::int64_t> delivered_;
    std::size_t afloat_ = 0;
    std::vector<Lane> look_at_; // lanes whose head may be gone
    std::vector<std::string> revived_;
    std::vector<Refused> refused_;
    std::vector<Lane> scratch_;
    Lane next_turn_ = 0;

    bool stirred_ = true; // something has changed since the last step
    bool reload_ = true;
    bool reload_lines_ = true;
    bool find_due_ = true;
    bool waits_for_stream_ = false;
    std::int64_t settled_up_to_ = 0; // the last row of the kind that is_settled() asks for
    std::int64_t last_at_start_ = PG_INT64_MAX;
    bool paused_ = false;
    TimestampTz due_at_ = 0;
    TimestampTz not_due_before_ = 0;

    std::size_t batch_ = 0;
    std::uint64_t published_ = 0;
    TimestampTz published_at_ = 0;
    int oversized_batches_ = 0;
    int oversized_suspected_ = 0;
    std::uint64_t oversized_events_ = 0;
};

// The pause after the n-th attempt: exponential with jitter.
TimestampTz next_attempt_after(int attempts, const FailurePolicy &policy);

} // namespace outbox
