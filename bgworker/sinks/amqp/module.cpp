// RabbitMQ's library: what a relay to RabbitMQ loads.

#include "destination.h"
#include "setup.h"

namespace outbox
{

namespace
{

class Setup final : public SinkSetup
{
public:
    amqp::Settings settings;
    std::size_t max_event_bytes = 0;

    bool equals(const SinkSetup &other) const noexcept override
    {
        const auto &that = static_cast<const Setup &>(other);
        return settings == that.settings && max_event_bytes == that.max_event_bytes;
    }
    std::size_t max_record_bytes() const noexcept override
    {
        constexpr std::size_t kHeaders = std::size_t{64} * 1024;
        return max_event_bytes + kHeaders;
    }
    std::unique_ptr<Destination> make(Failure &why) const override
    {
        return amqp::RabbitMq::create(settings, why);
    }
};

std::unique_ptr<SinkSetup>
read(const SinkSettings &given, std::vector<OptionFault> &, Failure &why)
{
    auto setup = std::make_unique<Setup>();
    if (!amqp::read_settings(given, setup->settings, why))
        return nullptr;
    setup->max_event_bytes = given.max_event_bytes;
    return setup;
}

constexpr SinkModule kModule = {OUTBOX_VERSION, "rabbitmq", read};

} // namespace

} // namespace outbox

const outbox::SinkModule *
outbox_sink_module()
{
    return &outbox::kModule;
}
