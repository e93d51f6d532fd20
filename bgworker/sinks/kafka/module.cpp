// Kafka's library: what a relay to Kafka loads.

#include "bgworker/sinks/module.h"

#include "kafka_destination.h"
#include "kafka_setup.h"
#include "options.h"

namespace outbox
{

namespace
{

class Setup final : public SinkSetup
{
public:
    KafkaSetup setup;

    bool equals(const SinkSetup &other) const noexcept override
    {
        return setup == static_cast<const Setup &>(other).setup;
    }
    std::size_t max_record_bytes() const noexcept override { return max_message_bytes(setup); }
    std::unique_ptr<Destination> make(Failure &why) const override
    {
        auto destination = std::make_unique<KafkaDestination>(setup);
        if (!destination->open_wake_fds(why))
            return nullptr;
        return destination;
    }
};

// Version 0.2 took them there.
void
warn_of_secrets(const std::string &pairs, std::vector<OptionFault> &warnings)
{
    const Verdict verdict = check_no_secrets(parse_config_pairs(pairs).properties);
    if (!verdict.ok)
        warnings.push_back(
            {"outbox.kafka_config: " + std::string(verdict.reason), "", verdict.hint});
}

// Up to 0.2 they counted.
void
warn_of_many_requests(const KafkaSetup &setup, std::vector<OptionFault> &warnings)
{
    if (wants_many_requests(setup))
        warnings.push_back({"max.in.flight counts as 1",
                            "With more, events could overtake a batch that Kafka refuses, and be "
                            "lost.",
                            "Remove it from outbox.kafka_config and outbox.kafka_config_file."});
}

std::unique_ptr<SinkSetup>
read(const SinkSettings &settings, std::vector<OptionFault> &warnings, Failure &why)
{
    auto read = std::make_unique<Setup>();
    KafkaSetup &setup = read->setup;
    const SinkOptions &options = settings.options;
    const std::string file(options.text("kafka_config_file"));
    const std::string pairs(options.text("kafka_config"));
    setup.bootstrap_servers = options.text("bootstrap_servers");
    setup.client_id = settings.client_id;
    setup.backoff_initial_ms = static_cast<int>(settings.backoff_initial_ms);
    setup.backoff_max_ms = static_cast<int>(settings.backoff_max_ms);
    setup.max_messages = settings.max_records;
    setup.max_bytes = settings.max_bytes;
    setup.max_event_bytes = settings.max_event_bytes;
    warn_of_secrets(pairs, warnings);
    const bool usable =
        read_properties(settings.directory.c_str(), file.c_str(), pairs.c_str(), setup, why);
    warn_of_many_requests(setup, warnings);
    if (!usable)
        return nullptr;
    return read;
}

constexpr SinkModule kModule = {OUTBOX_VERSION, "kafka", read};

} // namespace

} // namespace outbox

const outbox::SinkModule *
outbox_sink_module()
{
    return &outbox::kModule;
}
