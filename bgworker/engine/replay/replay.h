// Replays: published events go to Kafka once more, behind everything that is new.
#pragma once

#include "replay_flight.h"

#include "bgworker/engine/common/backoff.h"
#include "bgworker/engine/common/token_bucket.h"
#include "bgworker/engine/world.h"

#include <memory>
#include <vector>

namespace outbox
{

// One replay at a time, with a producer of its own: what Kafka refuses of it ends that one, and new
// events are never in a queue, a batch or under a suspicion together with old ones. The methods of
// SinkListener ask no database.
class Replay final : public SinkListener
{
public:
    explicit Replay(const World &world);
    void configure(const FailurePolicy &policy) noexcept { policy_ = policy; }

    // Somebody has asked for a replay, or cancelled one.
    void look_soon() noexcept { look_ = true; }

    struct Chance
    {
        bool may_send;            // nothing that is new waits
        Steady live_published_at; // when another event was acknowledged last
    };
    // Hears Kafka, notes how far it is, and hands over what may go. Without a transaction. Returns
    // how long to wait at most before the next call, in ms; -1: until wake_fd is set.
    long step(const Chance &chance, Steady now);

    // The process ends: hears what there is to hear and writes it down.
    void hear() noexcept;
    void save_now(Steady now);
    bool is_waiting() const noexcept { return producer_ && producer_->outstanding() > 0; }
    // Ends the producer, and waits so long for its threads; those that do not end in time do by
    // themselves.
    void drop_producer(int wait_ms) noexcept;

    void delivered(std::uint64_t tag) noexcept override;
    void failed(std::uint64_t tag, const Failure &failure) noexcept override;
    void trouble(const Failure &failure) noexcept override;
    void log(int level, const char *facility, const char *text) noexcept override;

private:
    enum class HandOver
    {
        next,
        full,
        locked,
        halted
    };

    static constexpr int kHeldMs = 100; // until what was locked is tried again

    void look(Steady now);
    void begin_request(Steady now);
    void leave_request() noexcept;
    long advance(const Chance &chance, Steady now);
    bool save(Steady now, const char *ended);
    void end(Steady now, const char *state);
    bool watch_stuck(const Chance &chance, Steady now);
    long recover(Steady now);
    long send(Steady now);
    bool connect();
    HandOver hand_over_some(std::int64_t most, Steady now);
    HandOver hand_over();
    const EventNumbers *place_of(std::int64_t place);
    void add_header(Record &record);
    void note_error(const char *name, const char *text) noexcept;
    void note_refusal(std::int64_t place, const Failure &failure) noexcept;
    void note_failure(const Failure &failure) noexcept;
    void halt() noexcept;

    const World world_;
    Source &source_;
    Replays &replays_;
    Clock &clock_;
    FailurePolicy policy_;
    std::unique_ptr<Sink> producer_;
    bool look_ = true;
    Steady look_at_; // all the same

    // The replay under way.
    bool active_ = false;
    ReplayRequest request_ = {};
    ReplayFlight flight_;
    TokenBucket bucket_;
    std::vector<EventNumbers> chunk_;
    std::int64_t chunk_number_ = -1; // of the row that is in chunk_
    std::vector<Header> headers_;
    int oversized_batches_ = 0; // the next producer makes smaller ones
    bool batch_too_large_ = false;

    // Nothing is handed over until what is on its way has been heard of, and taken back.
    bool halted_ = false;
    Steady halted_since_;
    Backoff backoff_;
    Steady next_attempt_at_;

    // The first event that is not through, and since when it is the first.
    std::int64_t first_ = -1;
    Steady first_since_;
    Steady published_at_; // the last one of this replay

    bool unsaved_ = false;
    bool held_ = false; // a person holds the row: nothing more goes out
    Steady saved_at_;
};

} // namespace outbox
