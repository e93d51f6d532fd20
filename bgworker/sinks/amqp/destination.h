// Opens publishers for the engine.
#pragma once

#include "bgworker/engine/sink.h"

#include "mailbox.h"
#include "settings.h"

namespace outbox::amqp
{

class RabbitMq final : public Destination
{
public:
    // `settings` must live as long as this. Null and the reason. May throw std::bad_alloc.
    static std::unique_ptr<Destination> create(const Settings &settings, Failure &why);

    std::unique_ptr<Sink> open(Use use, int oversized_batches, Failure &why) override;
    int wake_fd(Use use) const noexcept override { return wakes_[static_cast<int>(use)].fd(); }
    const char *title() const noexcept override { return "RabbitMQ"; }
    const char *library() const noexcept override { return "librabbitmq"; }

private:
    explicit RabbitMq(const Settings &settings) noexcept : settings_(settings) {}

    const Settings &settings_;
    // Serving one publisher would take the other's news away.
    const Signal wakes_[3];
};

} // namespace outbox::amqp
