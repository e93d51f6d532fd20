#include "destination.h"

#include "publisher.h"

namespace outbox::amqp
{

namespace
{

constexpr const char *kUses[] = {"stream", "redelivery", "replay"};

} // namespace

std::unique_ptr<Destination>
RabbitMq::create(const Settings &settings, Failure &why)
{
    std::unique_ptr<RabbitMq> made(new RabbitMq(settings));
    for (const Signal &wake : made->wakes_)
        if (wake.fd() == -1)
        {
            set_failure(why, FailureClass::config, "NO_DESCRIPTOR",
                        "no descriptor could be opened");
            return nullptr;
        }
    return made;
}

std::unique_ptr<Sink>
RabbitMq::open(Use use, int, Failure &why)
{
    Settings settings = settings_;
    settings.name += std::string(" ") + kUses[static_cast<int>(use)];
    return Publisher::create(settings, wake_fd(use), why);
}

} // namespace outbox::amqp
