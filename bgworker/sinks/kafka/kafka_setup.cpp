#include "extension/core/kafka_properties.h"
#include "extension/core/regular_file.h"

#include "kafka_setup.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>

namespace outbox
{

namespace
{

// librdkafka's default, and where halving it ends.
constexpr int kLargestBatch = 1000000;
constexpr int kSmallestBatch = 1000;

constexpr const char *kMaxMessageBytes = "message.max.bytes";
constexpr std::size_t kRoomForKafka = std::size_t{64} * 1024;

bool
same(const Property &a, const Property &b)
{
    return a.name == b.name && a.value == b.value;
}

bool
refuse_setup(Failure &why, const std::string &text, const char *hint)
{
    kafka::describe_config(why, hint, "%s", text.c_str());
    return false;
}

bool
read_file(const std::string &path, std::string &content, Failure &why)
{
    std::string problem;
    const File file = open_regular_file(path, problem);
    if (!file)
        return refuse_setup(why,
                            "could not open outbox.kafka_config_file \"" + path + "\": " + problem,
                            "It must be a regular file, readable by the server's user.");
    if (!read_up_to(file, kMaxConfigBytes, content))
        return refuse_setup(why,
                            "could not read outbox.kafka_config_file \"" + path +
                                "\": " + std::strerror(errno),
                            "The file must be a regular file, readable by the server's user.");
    if (content.size() > kMaxConfigBytes)
        return refuse_setup(why, "outbox.kafka_config_file \"" + path + "\" is too large",
                            "It should hold one name=value a line.");
    return true;
}

bool
add_properties(const std::string &source, const ParsedConfig &parsed, KafkaSetup &setup,
               Failure &why)
{
    const Verdict verdict =
        parsed.verdict.ok ? check_properties(parsed.properties) : parsed.verdict;
    if (!verdict.ok)
        return refuse_setup(why, source + ": " + verdict.reason, verdict.hint);
    setup.properties.insert(setup.properties.end(), parsed.properties.begin(),
                            parsed.properties.end());
    return true;
}

bool
limits_requests(const Property &property)
{
    return property.name == "max.in.flight" ||
           property.name == "max.in.flight.requests.per.connection";
}

bool
names(const KafkaSetup &setup, const char *name)
{
    return std::any_of(setup.properties.begin(), setup.properties.end(),
                       [&](const Property &property) { return property.name == name; });
}

} // namespace

bool
KafkaSetup::operator==(const KafkaSetup &other) const
{
    return bootstrap_servers == other.bootstrap_servers && client_id == other.client_id &&
           backoff_initial_ms == other.backoff_initial_ms &&
           backoff_max_ms == other.backoff_max_ms && max_messages == other.max_messages &&
           max_bytes == other.max_bytes && max_event_bytes == other.max_event_bytes &&
           std::equal(properties.begin(), properties.end(), other.properties.begin(),
                      other.properties.end(), same);
}

bool
read_properties(const char *directory, const char *file, const char *pairs, KafkaSetup &setup,
                Failure &why)
{
    setup.properties.clear();
    if (file[0] != '\0')
    {
        const std::string path =
            file[0] == '/' ? std::string(file) : std::string(directory) + '/' + file;
        std::string content;
        if (!read_file(path, content, why) ||
            !add_properties("outbox.kafka_config_file \"" + path + '"', parse_config_file(content),
                            setup, why))
            return false;
    }
    return add_properties("outbox.kafka_config", parse_config_pairs(pairs), setup, why);
}

bool
wants_many_requests(const KafkaSetup &setup)
{
    return std::any_of(setup.properties.begin(), setup.properties.end(),
                       [](const Property &property)
                       { return limits_requests(property) && property.value != "1"; });
}

std::size_t
max_message_bytes(const KafkaSetup &setup) noexcept
{
    std::size_t bytes = setup.max_event_bytes + kRoomForKafka;
    for (const Property &property : setup.properties)
        if (property.name == kMaxMessageBytes)
            bytes = std::strtoull(property.value.c_str(), nullptr, 10);
    return bytes;
}

kafka::Producer *
create_producer(const KafkaSetup &setup, int oversized_batches, int wake_fd, Failure &why)
{
    std::vector<Property> properties;
    // Room for what Kafka adds to a record, so that emit()'s limit is the one that counts.
    if (!names(setup, kMaxMessageBytes))
        properties.push_back({kMaxMessageBytes, std::to_string(max_message_bytes(setup))});
    if (oversized_batches > 0 && !names(setup, "batch.size"))
        properties.push_back(
            {"batch.size", std::to_string(std::max(
                               kSmallestBatch, kLargestBatch >> std::min(oversized_batches, 20)))});
    std::copy_if(setup.properties.begin(), setup.properties.end(), std::back_inserter(properties),
                 [](const Property &property) { return !limits_requests(property); });
    // A record that Kafka refuses must not be overtaken by those sent after it: at most one request
    // a broker is under way, and a refusal ends the producer.
    properties.push_back({"max.in.flight", "1"});

    kafka::Settings settings;
    settings.bootstrap_servers = setup.bootstrap_servers;
    settings.client_id = setup.client_id;
    settings.properties = properties.data();
    settings.property_count = properties.size();
    settings.backoff_initial_ms = setup.backoff_initial_ms;
    settings.backoff_max_ms = std::max(setup.backoff_max_ms, setup.backoff_initial_ms);
    settings.max_messages = setup.max_messages;
    settings.max_bytes = setup.max_bytes;
    settings.max_record_bytes = max_message_bytes(setup);
    settings.gapless = true;
    return kafka::Producer::create(settings, wake_fd, why);
}

} // namespace outbox
