#include "options.h"

namespace outbox::kafka
{

namespace
{

constexpr const char *kBootstrapServers = "bootstrap_servers";
constexpr const char *kSettings[] = {kBootstrapServers, "kafka_config", "kafka_config_file",
                                     nullptr};

bool
check(const SinkOptions &options, OptionFault &fault)
{
    if (!options.text(kBootstrapServers).empty())
        return true;
    fault = {"options must have \"bootstrap_servers\"", "",
             "For example {\"bootstrap_servers\": \"kafka-b:9092\"}."};
    return false;
}

} // namespace

const SinkKind kSinkKind = {"kafka",   "Kafka", "outbox_kafka", "postgresql-%s-outbox",
                            kSettings, check,   kSettings,      kBootstrapServers,
                            kNoNames};

namespace
{

const RegisteredSink registered(kSinkKind);

} // namespace

} // namespace outbox::kafka
