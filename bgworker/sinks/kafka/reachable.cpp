#include "producer.h"

#include <librdkafka/rdkafka.h>

namespace outbox::kafka
{

// librdkafka reports that the last broker is gone, and not that the first one is back.
bool
Producer::reachable(int timeout_ms) noexcept
{
    if (client_ == nullptr)
        return false;
    const rd_kafka_metadata_t *metadata = nullptr;
    const rd_kafka_resp_err_t error = rd_kafka_metadata(client_, 0, nullptr, &metadata, timeout_ms);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
        return false;
    rd_kafka_metadata_destroy(metadata);
    return true;
}

} // namespace outbox::kafka
