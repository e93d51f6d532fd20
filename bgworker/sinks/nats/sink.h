// NATS JetStream as a destination, for a single-threaded caller that must not wait.
#pragma once

#include "bgworker/engine/sink.h"

#include "courier.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <pthread.h>
#include <vector>

namespace outbox::nats
{

// Publishes with the event's id as Nats-Msg-Id, and takes nothing for published that the stream has
// not acknowledged. Of a topic and key one record is under way at a time; see Flights for what
// becomes of them, and Judgement for whose a refusal is.
class NatsSink final : public KeyedSink
{
public:
    // It connects in the background. Null and the reason when there is no thread or no descriptor.
    // Adds to `wake_fd`, a non-blocking eventfd of the caller's (or -1), whenever serve() has work
    // to do.
    static std::unique_ptr<NatsSink> create(const Settings &settings, const Manner &manner,
                                            int wake_fd, Failure &why) noexcept;

    // Closes with a time limit of 100 ms.
    ~NatsSink() override;
    NatsSink(const NatsSink &) = delete;
    NatsSink &operator=(const NatsSink &) = delete;

    ProduceResult produce(const Record &record, Failure &why) noexcept override;
    void send_now() noexcept override {}
    std::size_t serve(SinkListener &listener, std::size_t max_events) noexcept override;
    // The thread cannot say that it is held up.
    int serve_within_ms() const noexcept override
    {
        return outstanding_ > 0 || courier_->is_reading() ? static_cast<int>(settings_.timeout_ms)
                                                          : -1;
    }
    std::size_t outstanding() const noexcept override { return outstanding_; }
    void purge() noexcept override { courier_->purge(); }
    bool fatal(Failure &why) const noexcept override;
    bool close(int timeout_ms) noexcept override;
    bool reachable(int) noexcept override { return outstanding() == 0 || courier_->is_well(); }

private:
    NatsSink(const Settings &settings, int wake_fd);
    bool start(const Manner &manner, Failure &why);
    ProduceResult try_produce(const Record &record, Failure &why);
    void interrupt() noexcept;
    std::uint64_t take_place();
    bool fetch() noexcept;
    void tell(std::size_t index, SinkListener &listener) noexcept;
    std::size_t tell_behind(std::uint64_t lane, SinkListener &listener) noexcept;

    const Settings settings_;
    const int wake_fd_;
    std::unique_ptr<MessageBuilder> builder_;
    std::shared_ptr<Courier> courier_;
    pthread_t thread_ = {};
    bool has_thread_ = false;

    std::vector<std::uint32_t> sizes_; // of what is outstanding, by place
    std::vector<std::uint32_t> free_places_;
    std::uint64_t serial_ = 0;
    std::size_t outstanding_ = 0;
    std::size_t bytes_ = 0;

    Reports reports_; // that are being handed on
    std::size_t next_report_ = 0;
};

} // namespace outbox::nats
