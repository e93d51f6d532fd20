#include "committed_offset.h"

#include "names.h"

#include "text.h"

#include <algorithm>
#include <charconv>

namespace outbox::v0::detail
{

namespace
{

constexpr std::string_view kKeptInPostgres = "outbox: OffsetPolicy::postgres, begun at ";
constexpr std::string_view kTheBeginning = "the beginning";

Beginning
without_a_row(const std::string &place, std::int64_t committed, std::string_view metadata)
{
    Beginning result;
    result.offset = result.origin = committed;
    if (metadata == kKeptInKafka)
        return result;
    if (const auto begun = where_it_began(metadata))
    {
        result.offset = result.origin = *begun;
        result.warning = "PostgreSQL has no offset any more for " + place + ", where this group " +
                         "had come to " + std::to_string(committed) +
                         ": its row in outbox.consumer_offsets was deleted, or PostgreSQL has " +
                         "lost commits; the consumer goes back to " + name_of(*begun) +
                         ", where it began, and processes again what Kafka still has and is not " +
                         "marked as processed";
        return result;
    }
    result.warning = place + " begins at " + std::to_string(committed) +
                     ", which this group has committed in Kafka, as PostgreSQL has no offset for " +
                     "it: if an older version of this client kept offsets in PostgreSQL, which " +
                     "has lost them, records before that are left out; then stop, and begin " +
                     "earlier by outbox.record_offset()";
    return result;
}

} // namespace

std::string
kept_in_postgres(std::int64_t begun)
{
    return std::string(kKeptInPostgres)
        .append(begun >= 0 ? std::to_string(begun) : std::string(kTheBeginning));
}

std::optional<std::int64_t>
where_it_began(std::string_view metadata)
{
    if (metadata.substr(0, kKeptInPostgres.size()) != kKeptInPostgres)
        return std::nullopt;
    metadata.remove_prefix(kKeptInPostgres.size());
    if (metadata == kTheBeginning)
        return RD_KAFKA_OFFSET_BEGINNING;
    std::int64_t begun = -1;
    const char *end = metadata.data() + metadata.size();
    const auto [rest, error] = std::from_chars(metadata.data(), end, begun);
    if (error != std::errc() || rest != end || begun < 0)
        return std::nullopt;
    return begun;
}

Beginning
find_beginning(const rd_kafka_topic_partition_t &in_kafka, std::int64_t stored)
{
    Beginning result;
    if (in_kafka.offset < 0)
    {
        // Without a row too it would begin there.
        result.origin = RD_KAFKA_OFFSET_BEGINNING;
        result.offset = stored >= 0 ? stored : result.origin;
        result.to_be_committed = stored >= 0;
        return result;
    }
    const std::int64_t committed = in_kafka.offset;
    const std::string_view metadata(static_cast<const char *>(in_kafka.metadata),
                                    in_kafka.metadata_size);
    const std::string place = name_of(in_kafka);
    if (stored < 0)
        return without_a_row(place, committed, metadata);
    result.offset = stored;
    const std::optional<std::int64_t> begun = where_it_began(metadata);
    result.origin = std::min(stored, begun.value_or(committed));
    result.to_be_committed = !begun && metadata != kKeptInKafka;
    if (committed <= stored)
        return result;
    if (metadata == kKeptInKafka)
    {
        result.offset = result.origin = committed;
        result.info = "offsets of " + place + " were kept in Kafka meanwhile, so it continues at " +
                      std::to_string(committed) + ", not at the " + std::to_string(stored) +
                      " of PostgreSQL";
        return result;
    }
    result.warning = place + " continues at " + std::to_string(stored) + ", as PostgreSQL says, " +
                     "where this group had come to " + std::to_string(committed) +
                     ": PostgreSQL has lost commits" +
                     (begun ? ""
                            : ", or an older version kept offsets in Kafka meanwhile; then effects "
                              "are repeated whose events are not marked any more");
    return result;
}

} // namespace outbox::v0::detail
