// NATS's library: what a relay to NATS loads.

#include "bgworker/sinks/module.h"

#include "destination.h"
#include "options.h"

#include <cstdio>

namespace outbox::nats
{

namespace
{

// What headers, subject and the answer's address add to an event.
constexpr std::size_t kMaxAddedBytes = std::size_t{64} * 1024;

class Setup final : public SinkSetup
{
public:
    SinkSettings given;
    Settings settings;

    // Files are read for each connection, so another content needs no new sink.
    bool equals(const SinkSetup &other) const noexcept override
    {
        const SinkSettings &theirs = static_cast<const Setup &>(other).given;
        return given.options == theirs.options && given.client_id == theirs.client_id &&
               given.backoff_initial_ms == theirs.backoff_initial_ms &&
               given.backoff_max_ms == theirs.backoff_max_ms &&
               given.max_records == theirs.max_records && given.max_bytes == theirs.max_bytes &&
               given.max_event_bytes == theirs.max_event_bytes;
    }
    std::size_t max_record_bytes() const noexcept override
    {
        return given.max_event_bytes + kMaxAddedBytes;
    }
    std::unique_ptr<Destination> make(Failure &why) const override
    {
        auto destination = std::make_unique<NatsDestination>(settings);
        if (!destination->open_wake_fds(why))
            return nullptr;
        return destination;
    }
};

void
make_absolute(const std::string &directory, std::string &path)
{
    if (!path.empty() && path.front() != '/')
        path.insert(0, directory + '/');
}

std::unique_ptr<SinkSetup>
read(const SinkSettings &given, std::vector<OptionFault> &, Failure &why)
{
    auto setup = std::make_unique<Setup>();
    Settings &settings = setup->settings;
    OptionFault fault;
    if (!read_options(given.options, settings, fault))
    {
        set_failure(why, FailureClass::config, "OPTIONS", "%s", fault.message.c_str());
        set_hint(why, fault.hint);
        return nullptr;
    }
    for (std::string *path :
         {&settings.password_file, &settings.token_file, &settings.credentials_file,
          &settings.ca_file, &settings.cert_file, &settings.key_file})
        make_absolute(given.directory, *path);
    settings.client_id = given.client_id;
    settings.backoff_initial_ms = given.backoff_initial_ms;
    settings.backoff_max_ms = given.backoff_max_ms;
    settings.max_records = given.max_records;
    settings.max_bytes = given.max_bytes;
    setup->given = given;
    return setup;
}

constexpr SinkModule kModule = {OUTBOX_VERSION, "nats", read};

} // namespace

} // namespace outbox::nats

const outbox::SinkModule *
outbox_sink_module()
{
    return &outbox::nats::kModule;
}
