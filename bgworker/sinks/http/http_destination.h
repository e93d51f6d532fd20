// Opens sinks for the engine.
#pragma once

#include "bgworker/engine/sink.h"

#include "station.h"

#include <memory>
#include <utility>

namespace outbox::http
{

class HttpDestination final : public Destination
{
public:
    explicit HttpDestination(std::unique_ptr<Station> station) noexcept
        : station_(std::move(station))
    {
    }

    std::unique_ptr<Sink> open(Use use, int oversized_batches, Failure &why) override;
    int wake_fd(Use use) const noexcept override
    {
        return station_->wakes[static_cast<std::size_t>(use)].epoll();
    }
    const char *title() const noexcept override { return "webhook"; }
    const char *library() const noexcept override { return "libcurl"; }

private:
    const std::unique_ptr<Station> station_;
};

} // namespace outbox::http
