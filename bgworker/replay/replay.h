// Replays: published events go to Kafka once more, behind everything that is new.
#pragma once

#include "bgworker/core/backoff.h"
#include "bgworker/core/replay_flight.h"
#include "bgworker/core/token_bucket.h"
#include "bgworker/kafka/producer.h"

#include "bgworker/records/event_reader.h"
#include "replay_store.h"

#include "bgworker/kafka/kafka_setup.h"

#include <memory>

namespace outbox
{

// One replay at a time, with a producer of its own: what Kafka refuses of it ends that one, and new
// events are never in a queue, a batch or under a suspicion together with old ones. Lives on the
// heap as long as the process. Times are moments of the steady clock, in microseconds. Methods that
// call PostgreSQL may be left by longjmp, so they keep no object with a destructor on their frames;
// those of EventSink call no PostgreSQL.
class Replay final : public kafka::EventSink
{
public:
    // `wake_fd` is the producer's: an eventfd that nobody else resets.
    explicit Replay(int wake_fd) noexcept : wake_fd_(wake_fd) {}

    // Somebody has asked for a replay, or cancelled one.
    void look_soon() noexcept { look_ = true; }

    struct Chance
    {
        const KafkaSetup *setup;
        bool may_send;                  // nothing that is new waits
        std::int64_t live_published_at; // when a new event was acknowledged last; 0: never
    };
    // Hears Kafka, notes how far it is, and hands over what may go. Without a transaction. Returns
    // how long to wait at most before the next call, in ms; -1: until wake_fd is set.
    long step(const Chance &chance, std::int64_t now);

    // The process ends: hears what there is to hear and writes it down.
    void hear() noexcept;
    void save_now(std::int64_t now);
    bool is_waiting() const noexcept { return producer_ && producer_->outstanding() > 0; }
    // Ends the producer, and waits so long for its threads; those that do not end in time do by
    // themselves.
    void drop_producer(int wait_ms) noexcept;

    void delivered(std::uint64_t tag) noexcept override;
    void failed(std::uint64_t tag, const kafka::Failure &failure) noexcept override;
    void trouble(const kafka::Failure &failure) noexcept override;
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

    void look(std::int64_t now);
    void begin_request(std::int64_t now);
    void leave_request() noexcept;
    long advance(const Chance &chance, std::int64_t now);
    bool save(std::int64_t now, const char *ended);
    void end(std::int64_t now, const char *state);
    bool watch_stuck(const Chance &chance, std::int64_t now);
    long recover(std::int64_t now);
    long send(const Chance &chance, std::int64_t now);
    bool connect(const KafkaSetup &setup);
    HandOver hand_over_some(std::int64_t most, std::int64_t now);
    HandOver hand_over(EventTables *tables);
    const ReplayPlace *place_of(std::int64_t place);
    void add_header(kafka::Record *record) const;
    void note_error(const char *name, const char *text) noexcept;
    void note_refusal(std::int64_t place, const kafka::Failure &failure) noexcept;
    void note_failure(const kafka::Failure &failure) noexcept;
    void halt() noexcept;

    const int wake_fd_;
    std::unique_ptr<kafka::Producer> producer_;
    bool look_ = true;
    std::int64_t look_at_ = 0; // all the same

    // The replay under way.
    bool active_ = false;
    ReplayRequest request_ = {};
    ReplayFlight flight_;
    TokenBucket bucket_;
    ReplayPlace chunk_[kReplayChunk];
    std::int64_t chunk_number_ = -1; // of the row that is in chunk_
    int chunk_size_ = 0;
    int oversized_batches_ = 0; // the next producer makes smaller ones
    bool batch_too_large_ = false;

    // Nothing is handed over until what is on its way has been heard of, and taken back.
    bool halted_ = false;
    std::int64_t halted_since_ = 0;
    Backoff backoff_;
    std::int64_t next_attempt_at_ = 0;

    // The first event that is not through, and since when it is the first.
    std::int64_t first_ = -1;
    std::int64_t first_since_ = 0;
    std::int64_t published_at_ = 0; // the last one of this replay

    bool unsaved_ = false;
    bool held_ = false; // a person holds the row: nothing more goes out
    std::int64_t saved_at_ = 0;
    MemoryContext event_context_ = nullptr; // reset for each event
};

} // namespace outbox
