// Opens sinks for the engine.
#pragma once

#include "bgworker/engine/sink.h"

#include "settings.h"

namespace outbox::nats
{

class NatsDestination final : public Destination
{
public:
    explicit NatsDestination(const Settings &settings) : settings_(settings) {}
    ~NatsDestination() override;
    NatsDestination(const NatsDestination &) = delete;
    NatsDestination &operator=(const NatsDestination &) = delete;

    bool open_wake_fds(Failure &why) noexcept;

    std::unique_ptr<Sink> open(Use use, int oversized_batches, Failure &why) override;
    int wake_fd(Use use) const noexcept override { return wake_fds_[static_cast<int>(use)]; }
    bool may_hear_late() const noexcept override { return true; }
    const char *title() const noexcept override { return "NATS"; }
    const char *library() const noexcept override { return "libnats"; }

private:
    const Settings settings_;
    int wake_fds_[3] = {-1, -1, -1};
};

} // namespace outbox::nats
