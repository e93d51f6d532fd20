// Events that Kafka refused, and the lines behind them: what is tried again when, and what follows.
#pragma once

#include "bgworker/core/lanes.h"
#include "bgworker/kafka/producer.h"

#include "bgworker/records/event_record.h"
#include "bgworker/relay/stats.h"
#include "delivery_store.h"

#include <vector>

namespace outbox
{

// Events from outbox.deliveries are in flight under tags of their own.
constexpr std::uint64_t kRedeliveryTag = static_cast<std::uint64_t>(1) << 63;

struct FailurePolicy
{
    int max_attempts;
    bool block;
    int64 backoff_initial_ms;
    int64 backoff_max_ms;
};

// What may be sent besides the stream of new events. Lives as long as the process; its methods run
// in a transaction with an active snapshot unless said otherwise.
class Redelivery
{
public:
    explicit Redelivery(Stats &stats); // throws std::bad_alloc

    // Reads the table, at first and after an operator or the relay changed it.
    void load();
    void reload_soon() noexcept { reload_ = reload_settled_ = true; }

    // The lane in which an event of this topic and key has to wait, if there is one. No
    // transaction.
    bool must_wait(std::string_view topic, std::string_view key, Lane *lane) const noexcept;
    bool is_empty() const noexcept { return lanes_.size() == 0; }

    // Whether an event is due that must be tried alone: nothing new may be handed over, and
    // send_due() is to be called once nothing else is outstanding. No transaction.
    bool wants_quiet(TimestampTz now) const noexcept;
    // What is outstanding does not come back: new events may go on, and the due one is tried later.
    void give_up_quiet(TimestampTz now) noexcept;
    // While a single event is tried, nothing else goes out. No transaction.
    bool attempting() const noexcept { return attempting_; }

    // Notes what has come back, releases lanes, and hands waiting events over if it may. Returns
    // true when there is more to do at once.
    bool step(EventTables *tables, kafka::Producer *producer, const FailurePolicy &policy,
              bool may_release);
    void send_due(EventTables *tables, kafka::Producer *producer, TimestampTz now);

    // How many waiting events were refused as events; any of those that went out together may be
    // the culprit.
    std::size_t suspects() const noexcept { return suspects_; }
    const kafka::Failure &suspicion() const noexcept { return suspicion_; }
    // What to make of them: the culprit is known, or fewer go out together next time.
    void judge_suspects(bool known) noexcept;
    // Whether fewer of them than usual go out together, and nothing else beside them.
    bool isolating() const noexcept
    {
        return limit_ < kMaxInFlight && (!sent_.empty() || lanes_.releasing() > 0);
    }
    std::size_t in_flight() const noexcept { return sent_.size(); }

    // What the transaction has written is there to stay; or it was rolled back, and is to be done
    // again. Returns whether there was anything. No transaction.
    bool committed() noexcept;
    void rolled_back();

    // Sets a refused event aside. One that comes from the stream of new events joins the line when
    // its topic or key has one; others are the head of theirs.
    void refuse(const EventRow &event, const EventLine &line, bool from_stream, int attempts_before,
                const kafka::Failure &failure, const FailurePolicy &policy);
    // Sets an event of the stream aside that must_wait() in this lane.
    void park(const EventRow &event, const EventLine &line, Lane lane);

    // Hear of events in flight; no transaction. Returns false for one that is not in flight, and
    // tells of the others in *event.
    bool delivered(std::uint64_t tag, Acknowledged *event) noexcept;
    void failed(std::uint64_t tag, const kafka::Failure &failure) noexcept;

    // Whether an event has a row that nothing waits for: an operator has settled it, or its key
    // flows although it was refused. Only asked of events that are read again after a restart.
    bool is_settled(std::int64_t seq, const pg_uuid_t &event_id) const;

    // All that was in flight will not be heard of any more. No transaction.
    void forget_in_flight() noexcept;
    // The same, and the lines are read again.
    void lose_in_flight(EventTables *tables, const FailurePolicy &policy);

    // Whether the event that is tried has been out for too long: then the producer must be purged,
    // and the attempt counts as refused. No transaction.
    bool give_up_attempt(TimestampTz now) noexcept;

    // Whether step() has something to note or to send. No transaction.
    bool has_work() const noexcept;
    TimestampTz due_at() const noexcept { return due_at_; }
    bool paused() const noexcept { return paused_; }
    bool has_refusal() const noexcept { return refused_; }

private:
    static constexpr std::size_t kMaxInFlight = 512;

    struct Sent
    {
        DeliveryRow row;
        bool done;
        Acknowledged event;
    };

    void note_culprit(const DeliveryRow &row, const kafka::Failure &failure) noexcept;
    void note_results(EventTables *tables, const FailurePolicy &policy);
    // An event has joined a line. It may have a lower number than some that are on their way:
    // numbers are drawn before the commit. Later events of its key may not go before it.
    void note_joined(Lane lane, std::int64_t seq) noexcept;
    bool is_delivered(std::int64_t seq) const noexcept;
    ArrayType *seqs_in_flight() const;
    bool release(Lane lane, EventTables *tables, kafka::Producer *producer);
    bool send(const DeliveryRow &row, EventTables *tables, kafka::Producer *producer);
    bool topic_takes(const DeliveryRow &row, EventTables *tables, kafka::Producer *producer);
    void note_refusal(const DeliveryRow &row, EventTables *tables, const kafka::Failure &failure,
                      const FailurePolicy &policy);
    bool has_room() const noexcept { return sent_.size() + delivered_.size() < limit_; }

    Stats &stats_;
    Lanes lanes_;
    std::vector<Sent> sent_; // in flight; tags count from first_tag_
    std::uint64_t first_tag_ = kRedeliveryTag;
    std::vector<std::int64_t> delivered_;
    std::vector<std::int64_t> removing_;                // of those, in the transaction under way
    bool noting_refusal_ = false;                       // likewise
    std::unordered_map<Lane, std::int64_t> sent_up_to_; // of lanes that are being released

    std::vector<Lane> scratch_;
    std::size_t limit_ = kMaxInFlight; // halves when waiting events are refused together
    bool attempting_ = false;
    TimestampTz attempting_since_ = 0;
    bool refused_ = false;
    DeliveryRow refused_row_ = {};
    kafka::Failure refusal_;
    std::size_t suspects_ = 0;
    DeliveryRow suspect_ = {};
    kafka::Failure suspicion_;
    bool reload_ = true;
    bool reload_lines_ = true;
    bool reload_settled_ = true;
    std::int64_t settled_up_to_ = 0; // the last row of the kind that is_settled() asks for
    bool paused_ = false;
    TimestampTz due_at_ = 0;
    TimestampTz not_due_before_ = 0;
};

// The pause after the n-th attempt: exponential with jitter.
TimestampTz next_attempt_after(int attempts, const FailurePolicy &policy);

} // namespace outbox
