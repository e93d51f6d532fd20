// Publishes records to Kafka for a single-threaded caller that must not wait.
#pragma once

#include "failure.h"
#include "flusher.h"
#include "secrets.h"
#include "settings.h"
#include "topic_handles.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

struct rd_kafka_s;
struct rd_kafka_queue_s;
struct rd_kafka_op_s;
struct rd_kafka_message_s;

namespace outbox::kafka
{

struct Header
{
    std::string_view name;
    std::string_view value;
    bool is_null = false;
};

// Everything pointed at is copied by produce().
struct Record
{
    std::string_view topic;
    std::string_view key;
    const void *value = nullptr;
    std::size_t value_size = 0;
    // Kafka's null value; an empty value is another thing.
    bool tombstone = false;
    const Header *headers = nullptr;
    std::size_t header_count = 0;
    // Milliseconds since 1970; 0 stands for now.
    std::int64_t timestamp_ms = 0;
    // Given back when the record's fate is known.
    std::uint64_t tag = 0;
};

// Hears what became of records. Called by Producer::serve() only, in the caller's thread; may call
// produce() and purge(), but must not destroy the producer.
class EventSink
{
public:
    virtual ~EventSink() = default;
    // What follows for so many records was sent to Kafka as one batch, or given up together.
    virtual void batch(std::size_t records) noexcept { static_cast<void>(records); }
    // The record is in Kafka, on all in-sync replicas.
    virtual void delivered(std::uint64_t tag) noexcept = 0;
    // The producer has given the record up.
    virtual void failed(std::uint64_t tag, const Failure &failure) noexcept = 0;
    // News of the connection that belongs to no record; a retriable one heals by itself.
    virtual void trouble(const Failure &failure) noexcept = 0;
    // A line of librdkafka's log, with syslog's levels (0 emergency ... 7 debug).
    virtual void log(int level, const char *facility, const char *text) noexcept = 0;
};

enum class ProduceResult
{
    queued,
    // Serve, then produce the same record again.
    queue_full,
    failed,
};

// An idempotent producer. Records with the same key go out in the order of produce(). Every queued
// record gets exactly one delivered() or failed(), unless the producer is destroyed before.
class Producer
{
public:
    // Returns a producer that connects in the background, or nullptr and the reason. It adds to
    // `wake_fd`, a non-blocking eventfd of the caller's (or -1), whenever serve() has work to do.
    static Producer *create(const Settings &settings, int wake_fd, Failure &why) noexcept;

    // Closes with a time limit of one second.
    ~Producer();
    Producer(const Producer &) = delete;
    Producer &operator=(const Producer &) = delete;

    // Copies the record into the producer's queue. When it fails, `why` says for what reason and
    // nothing was queued.
    ProduceResult produce(const Record &record, Failure &why) noexcept;

    // Ends the wait for fuller batches (linger.ms) for all that is queued. To be called when the
    // caller has nothing more to hand over for the moment.
    void send_now() noexcept;

    // Resets wake_fd and hands what has happened to the sink, without waiting. Stops early after
    // about `max_events`, then wake_fd is set again. Returns how many events were handed over.
    std::size_t serve(EventSink &sink, std::size_t max_events) noexcept;

    // How long the caller may wait for wake_fd before it calls serve() all the same, in
    // milliseconds; -1 when there is no limit.
    int serve_within_ms() const noexcept;

    // How many queued records have no delivered() or failed() yet.
    std::size_t outstanding() const noexcept { return outstanding_; }

    // Gives up all outstanding records; the next calls of serve() report them as failed. Nothing
    // may be produced from then on: it could be given up as well.
    void purge() noexcept;

    // Tells whether the producer is dead, and why. Nothing more is sent then; what is outstanding
    // is still reported, within the time that Kafka needs to answer for what is on its way.
    bool fatal(Failure &why) const noexcept;

    // Drops what is outstanding and ends librdkafka's threads. Returns false when they did not end
    // in time; then they end by themselves. Nothing else may be called afterwards.
    bool close(int timeout_ms) noexcept;

    // Asks a broker for something, and waits for the answer at most this long.
    bool reachable(int timeout_ms) noexcept;

    // Asks Kafka about a topic, and waits for the answer at most this long. Returns false, and why,
    // when Kafka does not name a partition of it.
    bool topic_usable(std::string_view topic, int timeout_ms, Failure &why) noexcept;

    // For tests: kills the producer as if Kafka had sent this error.
    void make_fatal(int code, const char *reason) noexcept;

private:
    Producer() = default;
    bool start(const Settings &settings, int wake_fd, Failure &why);
    bool open_queue(Failure &why) noexcept;
    bool is_dead() const noexcept;
    ProduceResult try_produce(const Record &record, Failure &why);
    ProduceResult refused(int code, const Record &record, Failure &why) noexcept;
    std::size_t dispatch(rd_kafka_op_s *event, EventSink &sink) noexcept;
    void report_delivery(const rd_kafka_message_s &message, EventSink &sink) noexcept;
    void report_error(rd_kafka_op_s *event, EventSink &sink) noexcept;
    void report_log(rd_kafka_op_s *event, EventSink &sink) noexcept;
    void set_wake_fd() noexcept;
    void reset_wake_fd() noexcept;

    rd_kafka_s *client_ = nullptr;
    rd_kafka_queue_s *queue_ = nullptr;
    TopicHandles topics_;
    Secrets secrets_;
    Flusher flusher_;
    int wake_fd_ = -1;
    bool lingering_ = false; // something was queued since send_now()
    std::size_t outstanding_ = 0;
};

} // namespace outbox::kafka
