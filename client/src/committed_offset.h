// What a commit to Kafka says, besides the offset, of how the consumer keeps its offsets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <librdkafka/rdkafka.h>

#include "outbox/export.h"

namespace outbox::v0::detail
{

// Of a commit where it is Kafka's offset that says where to continue.
constexpr std::string_view kKeptInKafka = "outbox: OffsetPolicy::kafka";

// Of a commit whose offset is kept in PostgreSQL: there is, or was, a row, and all records from
// `begun` on were processed by transactions that stored it. RD_KAFKA_OFFSET_BEGINNING is a value
// too.
std::string kept_in_postgres(std::int64_t begun);

// Where that consumer began; nothing if the metadata is somebody else's.
std::optional<std::int64_t> where_it_began(std::string_view metadata);

// Where a partition continues, and where the consumer once began in it, both as librdkafka takes
// them.
struct Beginning
{
    std::int64_t offset = 0;
    std::int64_t origin = 0;
    bool to_be_committed = false; // the row is there, and Kafka does not know the origin yet
    std::string warning;          // neither, or one of them
    std::string info;
};

// `stored` is PostgreSQL's offset, -1 if it has none. Kafka is told of offsets after PostgreSQL has
// them, so it never knows more, unless PostgreSQL has lost commits, or offsets were kept in Kafka
// for a time: in the second case the commit in Kafka says so, and what PostgreSQL has is old.
Beginning find_beginning(const rd_kafka_topic_partition_t &in_kafka, std::int64_t stored);

} // namespace outbox::v0::detail
