#include "producer.h"

#include <librdkafka/rdkafka.h>

#include <new>

namespace outbox::kafka
{

// librdkafka tells when the last broker goes away and not when the first one is back.
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

bool
Producer::topic_usable(std::string_view topic, int timeout_ms, Failure &why) noexcept
{
    rd_kafka_topic_t *handle = nullptr;
    try
    {
        handle = topics_.get(client_, topic);
    }
    catch (const std::bad_alloc &)
    {
        describe(why, RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE, "out of memory");
        return false;
    }
    if (handle == nullptr)
    {
        describe(why, rd_kafka_last_error(), "the topic name is refused");
        return false;
    }
    const rd_kafka_metadata_t *metadata = nullptr;
    rd_kafka_resp_err_t error = rd_kafka_metadata(client_, 0, handle, &metadata, timeout_ms);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR)
    {
        const bool found = metadata->topic_cnt == 1;
        error = found ? metadata->topics[0].err : RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
        if (found && error == RD_KAFKA_RESP_ERR_NO_ERROR && metadata->topics[0].partition_cnt == 0)
            error = RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
        rd_kafka_metadata_destroy(metadata);
    }
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR)
        return true;
    describe(why, error, "%s", rd_kafka_err2str(error));
    return false;
}

} // namespace outbox::kafka
