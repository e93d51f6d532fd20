// A consumer without the memory for a record.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "harness.h"

namespace
{

std::atomic<std::size_t> largest{SIZE_MAX};

} // namespace

// All of the program's, without the memory that is refused here.
void *
operator new(std::size_t size)
{
    void *memory = size > largest ? nullptr : std::malloc(size == 0 ? 1 : size);
    if (memory == nullptr)
        throw std::bad_alloc();
    return memory;
}

void
operator delete(void *memory) noexcept
{
    std::free(memory);
}

void
operator delete(void *memory, std::size_t /*size*/) noexcept
{
    std::free(memory);
}

using namespace outbox::test;

TEST(Memory, ThatIsNotThereForARecordEndsTheConsumerWithAnErrorAndLosesNothing)
{
    for (const size_t batch : {1, 10})
    {
        Scene scene;
        number_effects(scene.db);
        const std::string large(800000, 'v');
        for (int i = 0; i < 3; ++i)
            scene.writer.send(scene.topic, "k", i == 1 ? large : "", event_id(i), {}, 0);
        scene.writer.flush();
        outbox::ConsumerOptions options = scene.options();
        options.batch = batch;
        {
            largest = large.size() / 2;
            RunningConsumer consumer(options, &insert_effect);
            const std::exception_ptr failure = consumer.join();
            largest = SIZE_MAX;
            ASSERT_TRUE(failure);
            EXPECT_EQ(code_of([&] { std::rethrow_exception(failure); }), "53200");
        }
        EXPECT_LE(scene.effects(), 1);
        RunningConsumer consumer(options, &insert_effect);
        EXPECT_TRUE(scene.drained(options.consumer));
        consumer.finish();
        EXPECT_EQ(scene.effects(), 3);
        EXPECT_EQ(scene.events(), 3);
        EXPECT_EQ(misplaced_effects(scene.db), 0);
    }
}
