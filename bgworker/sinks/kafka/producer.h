// Kafka as a destination, for a single-threaded caller that must not wait.
#pragma once

#include "bgworker/engine/sink.h"

#include "failure.h"
#include "flusher.h"
#include "extension/core/secrets.h"
#include "settings.h"
#include "topic_handles.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

struct rd_kafka_s;
struct rd_kafka_queue_s;
struct rd_kafka_op_s;
struct rd_kafka_message_s;
struct rd_kafka_topic_s;

namespace outbox::kafka
{

// An idempotent producer.
class Producer final : public Sink
{
public:
    // Returns a producer that connects in the background, or nullptr and the reason. It adds to
    // `wake_fd`, a non-blocking eventfd of the caller's (or -1), whenever serve() has work to do.
    static Producer *create(const Settings &settings, int wake_fd, Failure &why) noexcept;

    // Closes with a time limit of one second.
    ~Producer() override;
    Producer(const Producer &) = delete;
    Producer &operator=(const Producer &) = delete;

    ProduceResult produce(const Record &record, Failure &why) noexcept override;
    ProduceResult offer(const Record &record, Offer &offer, Failure &why) noexcept override;
    ProduceResult place(std::string_view topic, std::string_view key, Offer &offer,
                        Failure &why) noexcept override;
    void note_away() noexcept override { topics_->note_away(); }
    bool take_topics_changed() noexcept override { return std::exchange(topics_changed_, false); }
    // Ends the wait of linger.ms.
    void send_now() noexcept override;
    // Resets wake_fd first; when it stops early wake_fd is set again.
    std::size_t serve(SinkListener &listener, std::size_t max_events) noexcept override;
    int serve_within_ms() const noexcept override;
    std::size_t outstanding() const noexcept override { return outstanding_; }
    void purge() noexcept override;
    bool fatal(Failure &why) const noexcept override;
    bool close(int timeout_ms) noexcept override;
    bool reachable(int timeout_ms) noexcept override;

    // For tests: kills the producer as if Kafka had sent this error.
    void make_fatal(int code, const char *reason) noexcept;

private:
    Producer() = default;
    bool start(const Settings &settings, int wake_fd, Failure &why);
    bool open_queue(Failure &why) noexcept;
    bool is_dead() const noexcept;
    ProduceResult try_produce(const Record &record, Failure &why);
    bool may_pass(std::string_view topic, std::string_view key, Offer &offer) noexcept;
    ProduceResult try_offer(const Record &record, Offer &offer, Failure &why);
    ProduceResult queue(rd_kafka_topic_s *topic, const Record &record, Failure &why);
    void serve_topics() noexcept;
    ProduceResult refused(int code, const Record &record, Failure &why) noexcept;
    std::size_t dispatch(rd_kafka_op_s *event, SinkListener &listener) noexcept;
    void report_delivery(const rd_kafka_message_s &message, SinkListener &listener) noexcept;
    void report_error(rd_kafka_op_s *event, SinkListener &listener) noexcept;
    void report_log(rd_kafka_op_s *event, SinkListener &listener) noexcept;
    void set_wake_fd() noexcept;
    void reset_wake_fd() noexcept;

    rd_kafka_s *client_ = nullptr;
    rd_kafka_queue_s *queue_ = nullptr;
    std::unique_ptr<TopicHandles> topics_;
    Secrets secrets_;
    Flusher flusher_;
    int wake_fd_ = -1;
    bool topics_changed_ = false;
    bool lingering_ = false; // something was queued since send_now()
    std::size_t outstanding_ = 0;
};

} // namespace outbox::kafka
