// Opens producers for the engine.
#pragma once

#include "bgworker/engine/sink.h"

#include "kafka_setup.h"

namespace outbox
{

// Each use has an eventfd of its own: serving one producer would take the other's news away.
class KafkaDestination final : public Destination
{
public:
    // `setup` must live as long as this.
    explicit KafkaDestination(const KafkaSetup &setup) noexcept : setup_(setup) {}
    ~KafkaDestination() override;
    KafkaDestination(const KafkaDestination &) = delete;
    KafkaDestination &operator=(const KafkaDestination &) = delete;

    bool open_wake_fds(Failure &why) noexcept;

    std::unique_ptr<Sink> open(Use use, int oversized_batches, Failure &why) override;
    int wake_fd(Use use) const noexcept override { return wake_fds_[static_cast<int>(use)]; }
    bool may_hear_late() const noexcept override { return true; }
    const char *title() const noexcept override { return "Kafka"; }
    const char *library() const noexcept override { return "librdkafka"; }

private:
    const KafkaSetup &setup_;
    int wake_fds_[3] = {-1, -1, -1};
};

} // namespace outbox
