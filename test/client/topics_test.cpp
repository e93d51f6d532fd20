// What topics have apart from records that stay: transactions, compaction, retention; and several
// of them in one consumer.
#include <atomic>
#include <functional>
#include <map>

#include "harness.h"
#include "support/kafka_admin.h"

using namespace outbox::test;

namespace
{

// Calls until it is done: a call that ends with a retriable error is resumed by the next one.
void
complete(const std::function<rd_kafka_error_t *(int limit_ms)> &call)
{
    constexpr int kLimitMs = 15000;
    constexpr int kCalls = 4;
    for (int i = 1;; ++i)
    {
        const std::unique_ptr<rd_kafka_error_t, decltype(&rd_kafka_error_destroy)> error(
            call(kLimitMs), &rd_kafka_error_destroy);
        if (!error)
            return;
        if (i == kCalls || !rd_kafka_error_is_retriable(error.get()))
            throw std::runtime_error(rd_kafka_error_string(error.get()));
    }
}

// Writes records in transactions. Each leaves a marker behind, which has an offset.
class TransactionalWriter
{
public:
    // What it does is in the log, should a step not end. A request that Kafka leaves without an
    // answer is sent again long before a step's limit.
    TransactionalWriter()
        : client_(make_kafka_client(RD_KAFKA_PRODUCER, kafka().bootstrap(),
                                    {{"transactional.id", unique_name("writer-")},
                                     {"linger.ms", "0"},
                                     {"socket.timeout.ms", "5000"},
                                     {"debug", "eos"}}))
    {
        complete([&](int limit_ms) { return rd_kafka_init_transactions(client_.get(), limit_ms); });
    }
    void begin()
    {
        complete([&](int) { return rd_kafka_begin_transaction(client_.get()); });
    }
    void write(const std::string &topic, const std::string &id)
    {
        rd_kafka_headers_t *list = rd_kafka_headers_new(1);
        rd_kafka_header_add(list, "id", -1, id.data(), static_cast<ssize_t>(id.size()));
        const rd_kafka_resp_err_t error = rd_kafka_producev(
            client_.get(), RD_KAFKA_VTYPE_TOPIC, topic.c_str(), RD_KAFKA_VTYPE_PARTITION, 0,
            RD_KAFKA_VTYPE_KEY, "k", size_t{1}, RD_KAFKA_VTYPE_HEADERS, list, RD_KAFKA_VTYPE_END);
        if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
            throw std::runtime_error(rd_kafka_err2str(error));
    }
    // So that they are in the topic, although they do not count yet.
    void flush() { ASSERT_EQ(rd_kafka_flush(client_.get(), 60000), RD_KAFKA_RESP_ERR_NO_ERROR); }
    void commit()
    {
        complete([&](int limit_ms)
                 { return rd_kafka_commit_transaction(client_.get(), limit_ms); });
    }
    void abort()
    {
        complete([&](int limit_ms) { return rd_kafka_abort_transaction(client_.get(), limit_ms); });
    }

private:
    KafkaHandle client_;
};

struct Policy
{
    outbox::OffsetPolicy offsets;
    size_t batch;
};
const std::vector<Policy> kPolicies = {{outbox::OffsetPolicy::kafka, 1},
                                       {outbox::OffsetPolicy::postgres, 10}};

} // namespace

// Records of an aborted transaction have no effect, those of an open one wait for its end, and what
// lies behind the last record is passed: retention may take it all.
TEST(Topics, TransactionsCountWhenTheyCommitAndTheirMarkersAreNoRecords)
{
    TransactionalWriter writer;
    for (const Policy &policy : kPolicies)
    {
        Scene scene;
        outbox::ConsumerOptions options = scene.options();
        options.offsets = policy.offsets;
        options.batch = policy.batch;
        const auto ends = [&] { return *records_in(kafka().bootstrap(), scene.topic); };
        {
            RunningConsumer consumer(options, &insert_effect);
            writer.begin();
            writer.write(scene.topic, event_id(1));
            writer.commit();
            writer.begin();
            writer.write(scene.topic, event_id(2));
            writer.write(scene.topic, event_id(3));
            writer.flush();
            scene.writer.write(scene.topic, "k", "{}", event_id(4), {}, 0); // behind an open one
            EXPECT_TRUE(scene.reaches(1));
            EXPECT_EQ(scene.effects(), 1);
            writer.abort();
            EXPECT_TRUE(scene.reaches(2));
            writer.begin();
            writer.write(scene.topic, event_id(5));
            writer.flush();
            writer.abort();
            EXPECT_TRUE(scene.drained(options.consumer));
            consumer.finish();
        }
        EXPECT_EQ(scene.db.column("select right(event_id::text, 1) from effects order by 1"),
                  (std::vector<std::string>{"1", "4"}));
        if (policy.offsets == outbox::OffsetPolicy::postgres)
        {
            EXPECT_EQ(scene.db.value("select next_offset from outbox.consumer_offsets"),
                      std::to_string(ends()));
        }
        delete_records(kafka().bootstrap(), scene.topic, 0, ends());
        RunningConsumer consumer(options, &insert_effect);
        scene.writer.write(scene.topic, "k", "{}", event_id(6), {}, 0);
        EXPECT_TRUE(scene.reaches(3));
        consumer.finish();
        EXPECT_EQ(scene.events(), 3);
    }
}

// Compaction leaves gaps between offsets, in which the stored one may be.
TEST(Topics, ACompactedTopicHasTheEffectsOfWhatIsLeft)
{
    Scene scene;
    const std::string topic = unique_name("compacted-");
    kafka().create_topic(topic, 1,
                         {{"cleanup.policy", "compact"},
                          {"segment.ms", "100"},
                          {"min.cleanable.dirty.ratio", "0.01"},
                          {"max.compaction.lag.ms", "200"}});
    outbox::ConsumerOptions options = scene.options();
    options.topics = {topic};
    options.offsets = outbox::OffsetPolicy::postgres;
    constexpr int kRecords = 20;
    for (int i = 0; i < kRecords; ++i)
        scene.writer.send(topic, "k", std::to_string(i), event_id(i), {}, 0);
    scene.writer.flush();
    {
        RunningConsumer consumer(options, &insert_effect);
        EXPECT_TRUE(scene.reaches(kRecords));
        consumer.finish();
    }
    // As if it had come to the middle of what is gone then, and its marks were older than they are
    // kept.
    scene.db.exec("truncate effects, outbox.processed_events;"
                  " update outbox.consumer_offsets set next_offset = 5");
    Consumer reader(kafka().bootstrap(), {topic});
    const auto gone = [&]
    {
        scene.writer.write(topic, "other", "", event_id(100), {}, 0); // a new segment
        std::map<int64_t, int> offsets;
        Consumer all(kafka().bootstrap(), {topic});
        if (!all.read_count(1, kSoon))
            return false;
        return all.records().front().offset >= kRecords - 1;
    };
    ASSERT_TRUE(wait_until(std::chrono::minutes(2), gone));
    RunningConsumer consumer(options, &insert_effect);
    EXPECT_TRUE(wait_until(kSoon,
                           [&]
                           {
                               return scene.db.value("select count(*) from effects where key ="
                                                     " 'k'") == "1";
                           }));
    EXPECT_TRUE(scene.reaches(2));
    consumer.finish();
    EXPECT_EQ(scene.events(), 2);
}

TEST(Topics, SeveralInOneConsumerKeepTheirOrderAndTheirOffsets)
{
    for (const Policy &policy : kPolicies)
    {
        Scene scene;
        outbox::ConsumerOptions options = scene.options();
        options.offsets = policy.offsets;
        options.batch = policy.batch;
        for (int i = 0; i < 2; ++i)
        {
            options.topics.push_back(unique_name("another-"));
            kafka().create_topic(options.topics.back());
        }
        constexpr int kRecords = 30;
        const auto write = [&](int from)
        {
            for (int i = from; i < from + kRecords; ++i)
                for (size_t topic = 0; topic < options.topics.size(); ++topic)
                    scene.writer.send(options.topics[topic], "k" + std::to_string(topic), "",
                                      event_id(static_cast<int>(topic) * 1000 + i), {}, i % 2);
            scene.writer.flush();
        };
        number_effects(scene.db);
        const auto consume = [&](int effects)
        {
            RunningConsumer consumer(options,
                                     [](PGconn *transaction, const outbox::Record &record)
                                     {
                                         run_sql(transaction,
                                                 "insert into effects values ('" + record.event_id +
                                                     "', '" + record.topic + " " +
                                                     std::to_string(record.partition) + "')");
                                     });
            EXPECT_TRUE(scene.reaches(effects));
            for (const std::string &topic : options.topics)
                EXPECT_TRUE(wait_until(
                    kSoon,
                    [&] { return group_lag(kafka().bootstrap(), options.consumer, topic) == 0; }));
            consumer.finish();
        };
        const int per_run = kRecords * static_cast<int>(options.topics.size());
        write(0);
        consume(per_run);
        write(kRecords);
        consume(2 * per_run);
        EXPECT_EQ(scene.effects(), 2 * per_run);
        EXPECT_EQ(scene.events(), 2 * per_run);
        // The order of each partition.
        EXPECT_EQ(misplaced_effects(scene.db), 0);
        EXPECT_EQ(scene.db.value("select count(distinct key) from effects"), "6");
    }
}

namespace
{

// Named in thread_sanitizer.supp, so it has to be a frame of its own.
[[gnu::noinline]] void
run_while_the_topic_is_made_anew(outbox::Consumer &consumer)
{
    consumer.run();
}

} // namespace

// What the consumer knew of the end of the old one says nothing of the new one. And it ends, though
// librdkafka 2.0 often does not in that case.
TEST(Topics, OneThatIsMadeAnewBesideAConsumerLosesNothingOfTheNewOne)
{
    constexpr int kBefore = 30;
    constexpr int kAfter = 60;
    Scene scene;
    outbox::ConsumerOptions options = scene.options();
    options.kafka_config["topic.metadata.refresh.interval.ms"] = "500";
    const auto write = [&](int from, int to)
    {
        RecordWriter writer(kafka().bootstrap());
        for (int i = from; i < to; ++i)
            writer.send(scene.topic, "k", "{}", event_id(i), {}, 0);
        writer.flush();
    };
    write(0, kBefore);
    {
        RunningConsumer consumer(options, &insert_effect, &run_while_the_topic_is_made_anew);
        EXPECT_TRUE(scene.reaches(kBefore));
        EXPECT_TRUE(scene.drained(options.consumer));
        delete_topic(kafka().bootstrap(), scene.topic);
        kafka().create_topic(scene.topic);
        write(kBefore, kBefore + 1);
        EXPECT_TRUE(scene.reaches(kBefore + 1));
        EXPECT_TRUE(scene.drained(options.consumer));
        consumer.finish();
    }
    write(kBefore + 1, kBefore + 1 + kAfter);
    RunningConsumer consumer(options, &insert_effect);
    EXPECT_TRUE(scene.reaches(kBefore + 1 + kAfter));
    consumer.finish();
    EXPECT_EQ(scene.effects(), kBefore + 1 + kAfter);
}
