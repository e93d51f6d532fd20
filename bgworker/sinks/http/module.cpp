// The webhook's library: what a relay to a webhook loads.
#include "bgworker/sinks/module.h"

#include "http_destination.h"
#include "options.h"
#include "setup.h"

namespace outbox::http
{

namespace
{

constexpr std::size_t kRoomForRequest = std::size_t{64} * 1024;

class HttpSetup final : public SinkSetup
{
public:
    Setup setup;
    std::size_t max_event_bytes = 0;

    bool equals(const SinkSetup &other) const noexcept override
    {
        const auto &same = static_cast<const HttpSetup &>(other);
        return setup == same.setup && max_event_bytes == same.max_event_bytes;
    }
    std::size_t max_record_bytes() const noexcept override
    {
        return max_event_bytes + kRoomForRequest;
    }
    std::unique_ptr<Destination> make(Failure &why) const override
    {
        std::unique_ptr<Station> station = Station::make(setup);
        if (station == nullptr)
        {
            set_failure(why, FailureClass::config, "NO_DESCRIPTOR",
                        "no descriptor could be opened");
            return nullptr;
        }
        return std::make_unique<HttpDestination>(std::move(station));
    }
};

std::unique_ptr<SinkSetup>
read(const SinkSettings &settings, std::vector<OptionFault> &, Failure &why)
{
    auto read = std::make_unique<HttpSetup>();
    Setup &setup = read->setup;
    OptionFault fault;
    if (!read_options(settings.options, setup.options, fault) ||
        !parse_url(setup.options.url, setup.endpoint, fault))
    {
        set_failure(why, FailureClass::config, "CONFIG", "%s", fault.message.c_str());
        return nullptr;
    }
    setup.backoff_initial_ms = settings.backoff_initial_ms;
    setup.backoff_max_ms = settings.backoff_max_ms;
    setup.max_records = settings.max_records;
    setup.max_bytes = settings.max_bytes;
    read->max_event_bytes = settings.max_event_bytes;
    setup.deny_networks = settings.options.text("webhook_deny_networks");
    setup.user_agent = "outbox/" OUTBOX_VERSION;
    if (!read_files(settings.directory, setup, why))
        return nullptr;
    return read;
}

constexpr SinkModule kModule = {OUTBOX_VERSION, "webhook", read};

} // namespace

} // namespace outbox::http

const outbox::SinkModule *
outbox_sink_module()
{
    return &outbox::http::kModule;
}
