// Opens producers for the engine.
#pragma once

#include "bgworker/engine/sink.h"
#include "bgworker/sinks/kafka/kafka_setup.h"

namespace outbox
{

// Each use has an eventfd of its own: serving one producer would take the other's news away.
class KafkaDestination final : public Destination
{
public:
    // `setup` must live as long as this.
    explicit KafkaDestination(const KafkaSetup &setup) noexcept : setup_(setup) {}

    void set_wake_fd(Use use, int fd) noexcept { wake_fds_[static_cast<int>(use)] = fd; }
    int wake_fd(Use use) const noexcept { return wake_fds_[static_cast<int>(use)]; }
    // No producer is made before.
    void enable(bool on) noexcept { enabled_ = on; }
    // Why the stream has none although it was asked for; taken once.
    bool take_stream_failure(Failure &why) noexcept;

    std::unique_ptr<Sink> open(Use use, int oversized_batches, Failure &why) override;

private:
    const KafkaSetup &setup_;
    int wake_fds_[3] = {-1, -1, -1};
    bool enabled_ = false;
    bool stream_failed_ = false;
    Failure stream_failure_;
};

} // namespace outbox
