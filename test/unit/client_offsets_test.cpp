// The client library: where a partition begins, by PostgreSQL's offset and what Kafka has of it.
#include <gtest/gtest.h>

#include "client/src/committed_offset.h"

namespace
{

using namespace outbox::v0::detail;

constexpr std::int64_t kFirst = RD_KAFKA_OFFSET_BEGINNING;

Beginning
find(std::int64_t stored, std::int64_t committed, std::string metadata)
{
    char topic[] = "orders";
    rd_kafka_topic_partition_t in_kafka = {};
    in_kafka.topic = topic;
    in_kafka.partition = 3;
    in_kafka.offset = committed;
    in_kafka.metadata = metadata.data();
    in_kafka.metadata_size = metadata.size();
    return find_beginning(in_kafka, stored);
}

} // namespace

TEST(ClientOffsets, WhereItBeganIsReadAsItWasWritten)
{
    for (const std::int64_t begun : {kFirst, std::int64_t{0}, std::int64_t{1} << 62})
        EXPECT_EQ(where_it_began(kept_in_postgres(begun)), begun);
    for (const std::string &other :
         {std::string(), std::string(kKeptInKafka), kept_in_postgres(1) + " ",
          kept_in_postgres(1) + "99999999999999999999", kept_in_postgres(1).substr(1),
          std::string("outbox: OffsetPolicy::postgres, begun at "),
          std::string("outbox: OffsetPolicy::postgres, begun at -3")})
        EXPECT_EQ(where_it_began(other), std::nullopt) << other;
}

TEST(ClientOffsets, APartitionBeginsWhereNothingIsLeftOut)
{
    const std::string kafka(kKeptInKafka);
    const std::string older;
    struct Case
    {
        std::int64_t stored;
        std::int64_t committed;
        std::string metadata;
        std::int64_t offset;
        std::int64_t origin;
        bool to_be_committed;
        bool warns;
    };
    constexpr std::int64_t kNone = RD_KAFKA_OFFSET_INVALID;
    for (const Case &one : {
             Case{-1, kNone, "", kFirst, kFirst, false, false},
             Case{8, kNone, "", 8, kFirst, true, false},
             // kept in Kafka before, or meanwhile
             Case{-1, 5, kafka, 5, 5, false, false},
             Case{8, 5, kafka, 8, 5, false, false},
             Case{8, 9, kafka, 9, 9, false, false},
             // kept in PostgreSQL, which has them, has lost some, or all
             Case{8, 7, kept_in_postgres(5), 8, 5, false, false},
             Case{8, 9, kept_in_postgres(5), 8, 5, false, true},
             Case{-1, 9, kept_in_postgres(5), 5, 5, false, true},
             Case{-1, 9, kept_in_postgres(kFirst), kFirst, kFirst, false, true},
             Case{8, 9, kept_in_postgres(kFirst), 8, kFirst, false, true},
             Case{3, 9, kept_in_postgres(5), 3, 3, false, true}, // somebody wants it so
             // by a client that does not say
             Case{-1, 9, older, 9, 9, false, true},
             Case{8, 7, older, 8, 7, true, false},
             Case{8, 9, older, 8, 8, true, true},
         })
    {
        const Beginning begin = find(one.stored, one.committed, one.metadata);
        const std::string text =
            std::to_string(one.stored) + ", " + std::to_string(one.committed) + " " + one.metadata;
        EXPECT_EQ(begin.offset, one.offset) << text;
        EXPECT_EQ(begin.origin, one.origin) << text;
        EXPECT_EQ(begin.to_be_committed, one.to_be_committed) << text;
        EXPECT_EQ(!begin.warning.empty(), one.warns) << text << ": " << begin.warning;
        EXPECT_EQ(begin.warning.find("orders/3") != std::string::npos, one.warns) << begin.warning;
    }
}
