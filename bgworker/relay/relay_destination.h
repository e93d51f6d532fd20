// Opens sinks for the engine: those of the library that the relay has loaded, once there is one.
#pragma once

#include "bgworker/engine/sink.h"

#include <utility>

namespace outbox
{

class RelayDestination final : public Destination
{
public:
    // Before this, or when it is null, none is opened.
    void use(std::unique_ptr<Destination> destination) noexcept
    {
        destination_ = std::move(destination);
        enabled_ = destination_ != nullptr;
    }
    void set_title(const char *title) noexcept { title_ = title; }
    bool is_there() const noexcept { return destination_ != nullptr; }
    void disable() noexcept { enabled_ = false; }
    // Why the stream has none although it was asked for; taken once.
    bool take_stream_failure(Failure &why) noexcept;

    std::unique_ptr<Sink> open(Use use, int oversized_batches, Failure &why) override;
    int wake_fd(Use use) const noexcept override
    {
        return destination_ ? destination_->wake_fd(use) : -1;
    }
    bool may_hear_late() const noexcept override
    {
        return !destination_ || destination_->may_hear_late();
    }
    const char *title() const noexcept override { return title_; }
    const char *library() const noexcept override
    {
        return destination_ ? destination_->library() : title_;
    }

private:
    std::unique_ptr<Destination> destination_; // lives as long as the process
    const char *title_ = "";
    bool enabled_ = false;
    bool stream_failed_ = false;
    Failure stream_failure_;
};

} // namespace outbox
