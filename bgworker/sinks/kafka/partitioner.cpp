#include "partitioner.h"

#include <librdkafka/rdkafka.h>

#include <utility>

namespace outbox::kafka
{

namespace
{

using Function = std::int32_t (*)(const rd_kafka_topic_t *, const void *, size_t, std::int32_t,
                                  void *, void *);

struct Named
{
    const char *name;
    Function function;
};
constexpr Named kPartitioners[] = {
    {"random", rd_kafka_msg_partitioner_random},
    {"consistent", rd_kafka_msg_partitioner_consistent},
    {"consistent_random", rd_kafka_msg_partitioner_consistent_random},
    {"murmur2", rd_kafka_msg_partitioner_murmur2},
    {"murmur2_random", rd_kafka_msg_partitioner_murmur2_random},
    {"fnv1a", rd_kafka_msg_partitioner_fnv1a},
    {"fnv1a_random", rd_kafka_msg_partitioner_fnv1a_random},
};

// The choice that the calling thread asks for. librdkafka's own threads, which place what was
// queued before its topic was known, have none.
thread_local Choice *current_choice = nullptr;

// As the configured partitioner says, if the record may go there.
template <std::size_t Index>
std::int32_t
place(const rd_kafka_topic_t *topic, const void *key, size_t key_size, std::int32_t partitions,
      void *topic_opaque, void *record_opaque)
{
    constexpr std::int32_t kNowhere = INT32_MAX;
    const std::int32_t partition = kPartitioners[Index].function(topic, key, key_size, partitions,
                                                                 topic_opaque, record_opaque);
    Choice *choice = current_choice;
    if (choice == nullptr || partition < 0)
        return partition;
    choice->partition = partition;
    if (!choice->gate.may_pass(partition))
        return kNowhere;
    choice->no_leader = rd_kafka_topic_partition_available(topic, partition) == 0;
    return choice->no_leader ? kNowhere : partition;
}

template <std::size_t... Indexes>
Function
placing(std::string_view name, std::index_sequence<Indexes...>) noexcept
{
    Function found = nullptr;
    static_cast<void>(
        ((name == kPartitioners[Indexes].name ? (found = place<Indexes>, true) : false) || ...));
    return found;
}

} // namespace

Choice::Choice(const PartitionGate &asked) noexcept : gate(asked)
{
    current_choice = this;
}

Choice::~Choice()
{
    current_choice = nullptr;
}

void
Partitioner::wrap(rd_kafka_topic_conf_t *config) noexcept
{
    char name[64] = "";
    std::size_t size = sizeof name;
    const bool known =
        rd_kafka_topic_conf_get(config, "partitioner", name, &size) == RD_KAFKA_CONF_OK;
    const Function found =
        placing(known ? name : "", std::make_index_sequence<std::size(kPartitioners)>());
    if (found != nullptr)
        rd_kafka_topic_conf_set_partitioner_cb(config, found);
    // One that draws lots needs librdkafka's lock, and would draw another one anyway.
    empty_at_random_ = std::string_view(name) == "consistent_random";
    function_ = std::string_view(name) == "random" ? nullptr : found;
}

std::int32_t
Partitioner::partition_of(const rd_kafka_topic_t *topic, std::string_view key,
                          std::int32_t partitions) const noexcept
{
    if (function_ == nullptr || (empty_at_random_ && key.empty()))
        return -1;
    const char *bytes = key.data() != nullptr ? key.data() : "";
    return function_(topic, bytes, key.size(), partitions, nullptr, nullptr);
}

} // namespace outbox::kafka
