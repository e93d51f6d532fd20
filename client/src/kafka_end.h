// The end of a client of librdkafka.
#pragma once

#include <chrono>
#include <future>
#include <memory>

#include <librdkafka/rdkafka.h>

#include "outbox/export.h"

namespace outbox::v0::detail
{

// For the threads of librdkafka to end. Usually they take milliseconds.
constexpr auto kEndLimit = std::chrono::milliseconds(5000);

constexpr const char *kLeftBehind = "a client of librdkafka does not end within 5 s, and is left "
                                    "behind with its threads and connections";

// Made before the client, so that its end needs no memory.
class KafkaEnd
{
public:
    // `used` is whatever librdkafka's threads may call or write to.
    explicit KafkaEnd(std::shared_ptr<void> used);

    // Destroys the client; once only. librdkafka waits for its threads, and for answers of Kafka,
    // which may take long; one of its threads has been seen not to end at all. So that is done in a
    // thread, which also owns `used`. False when it takes longer than the limit, or no thread is to
    // be had; then both are left behind.
    bool destroy(rd_kafka_t *client, int flags,
                 std::chrono::milliseconds limit = kEndLimit) noexcept;
    // Instead: nothing is destroyed.
    void leave_behind() noexcept;

private:
    struct Task;

    std::shared_ptr<Task> task_;
    std::future<void> done_;
};

} // namespace outbox::v0::detail
