#include "bare_amqp.h"

#include <chrono>
#include <algorithm>
#include <ctime>
#include <stdexcept>

#include <fmt/format.h>

#include "bench/support/inputs.h"
#include "bgworker/sinks/amqp/bytes.h"
#include "sinks/amqp/support/amqp_client.h"

namespace outbox::bench
{

namespace
{

using amqp::bytes_of;

constexpr amqp_channel_t kChannel = 1;

// As many confirms as there are; waits for one while there is no room.
void
take_confirms(amqp_connection_state_t state, uint64_t sent, uint64_t &confirmed, size_t window)
{
    for (;;)
    {
        amqp_frame_t frame;
        timeval limit = {sent - confirmed >= window ? 30 : 0, 0};
        const int status = amqp_simple_wait_frame_noblock(state, &frame, &limit);
        if (status == AMQP_STATUS_TIMEOUT && limit.tv_sec == 0)
            return;
        if (status != AMQP_STATUS_OK || frame.frame_type != AMQP_FRAME_METHOD ||
            frame.payload.method.id != AMQP_BASIC_ACK_METHOD)
            throw std::runtime_error("the bare publisher is not confirmed");
        // RabbitMQ confirms out of turn now and then; for a window the count is enough.
        const auto &ack = *static_cast<amqp_basic_ack_t *>(frame.payload.method.decoded);
        confirmed = ack.multiple != 0 ? std::max(confirmed, ack.delivery_tag) : confirmed + 1;
        amqp_maybe_release_buffers(state);
    }
}

amqp_table_entry_t
header(const char *name, const std::string &value)
{
    amqp_table_entry_t made = {};
    made.key = amqp_cstring_bytes(name);
    made.value.kind = AMQP_FIELD_KIND_UTF8;
    made.value.value.bytes = bytes_of(value);
    return made;
}

} // namespace

double
publish_bare(int port, const std::string &exchange, const std::string &routing_key, int64_t events,
             std::size_t window)
{
    const auto begin = std::chrono::steady_clock::now();
    const test::AmqpClient client(port);
    amqp_connection_state_t state = client.state();
    if (amqp_confirm_select(state, kChannel) == nullptr)
        throw std::runtime_error("RabbitMQ does not confirm");
    const std::string type = "placed";
    const std::string time = "2026-01-31T09:05:00.000123Z";
    uint64_t confirmed = 0;
    for (int64_t i = 0; i < events; i++)
    {
        const Input &input = inputs()[static_cast<size_t>(i) % inputs().size()];
        const std::string id = fmt::format("019c0e6b-90a7-7a22-8000-{:012x}", i);
        amqp_table_entry_t headers[] = {
            header("key", input.key), header("id", id), header("event_type", type),
            header("aggregate_type", routing_key), header("created_at", time)};
        amqp_basic_properties_t properties = {};
        properties._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_TIMESTAMP_FLAG |
                            AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG |
                            AMQP_BASIC_TYPE_FLAG;
        properties.delivery_mode = 2;
        properties.timestamp = static_cast<uint64_t>(std::time(nullptr));
        properties.headers = {5, headers};
        properties.message_id = bytes_of(id);
        properties.type = bytes_of(type);
        if (amqp_basic_publish(state, kChannel, bytes_of(exchange), bytes_of(routing_key), 1, 0,
                               &properties, bytes_of(input.payload)) != AMQP_STATUS_OK)
            throw std::runtime_error("the bare publisher cannot publish");
        take_confirms(state, static_cast<uint64_t>(i) + 1, confirmed, window);
    }
    take_confirms(state, static_cast<uint64_t>(events), confirmed, 1);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

} // namespace outbox::bench
