// Records that are other bytes than the producer wrote, as a disk or a network alters them now and
// then.
#include <atomic>
#include <fstream>

#include "e2e/real_kafka_test.h"
#include "harness.h"

using namespace outbox::test;

namespace
{

// Writes `by` where the partition 0 of the topic has `what` on the disk.
void
alter(const std::string &topic, const std::string &what, const std::string &by)
{
    const std::string file =
        dynamic_cast<RealKafka &>(kafka()).data(0) / (topic + "-0") / "00000000000000000000.log";
    const size_t place = read_file(file).find(what);
    ASSERT_NE(place, std::string::npos);
    std::fstream log(file, std::ios::in | std::ios::out | std::ios::binary);
    log.seekp(static_cast<std::streamoff>(place));
    log << by << std::flush;
    ASSERT_TRUE(log);
}

// The code of what run() ends with.
std::string
end_of(RunningConsumer &consumer)
{
    return code_of(
        [&]
        {
            if (const std::exception_ptr failure = consumer.join())
                std::rethrow_exception(failure);
        });
}

} // namespace

// librdkafka's own next step would be the record behind it; or, as it counts wrongly from a batch
// of some length on, whatever it takes the middle of the batch for.
REAL_KAFKA_TEST(Unreadable, AnAlteredRecordIsNeitherProcessedNorPassedOver)
{
    for (const auto policy : {outbox::OffsetPolicy::kafka, outbox::OffsetPolicy::postgres})
        for (const size_t size : {0U, 5000U})
        {
            Scene scene;
            scene.writer.write(scene.topic, "k", "first", event_id(1), {}, 0);
            scene.writer.write(scene.topic, "k", "pay 100" + std::string(size, ' '), event_id(2),
                               {}, 0);
            scene.writer.write(scene.topic, "k", "last", event_id(3), {}, 0);
            alter(scene.topic, "pay 100", "pay 900");
            outbox::ConsumerOptions options = scene.options();
            options.offsets = policy;
            options.batch = 10;
            std::atomic<int> calls{0};
            RunningConsumer consumer(options,
                                     [&](PGconn *transaction, const outbox::Record &record)
                                     {
                                         if (++calls <= 2)
                                             throw std::runtime_error("not yet");
                                         insert_effect(transaction, record);
                                     });
            EXPECT_EQ(end_of(consumer), "_BAD_MSG") << consumer.log();
            EXPECT_EQ(scene.effects(), 1) << "what came before it is done first";
            EXPECT_EQ(group_lag(kafka().bootstrap(), options.consumer, scene.topic), 2);

            alter(scene.topic, "pay 900", "pay 100");
            RunningConsumer next(options, &insert_effect);
            EXPECT_TRUE(scene.drained(options.consumer));
            next.finish();
            EXPECT_EQ(scene.effects(), 3);
        }
}
