#include "refused_connection.h"

#include <librdkafka/rdkafka.h>

#include <cstdint>
#include <sys/socket.h>

namespace outbox::kafka
{

namespace
{

constexpr const char *kName = "outbox";
constexpr std::int16_t kProduce = 0; // the key of such requests

// Of a thread of librdkafka's, which serves one broker for one client.
struct Connection
{
    int socket = -1;       // by which it has sent records last
    bool answered = false; // what is reported now is so because of an answer that came by it
};
thread_local Connection connection;

thread_local bool began = false; // the client that is being made

rd_kafka_resp_err_t
on_request_sent(rd_kafka_t *, int socket, const char *, std::int32_t, std::int16_t request,
                std::int16_t, std::int32_t, std::size_t, void *) noexcept
{
    if (request == kProduce)
        connection.socket = socket;
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

// Also of a request that gets no answer: that is an error.
rd_kafka_resp_err_t
on_response_received(rd_kafka_t *, int, const char *, std::int32_t, std::int16_t request,
                     std::int16_t, std::int32_t, std::size_t, std::int64_t,
                     rd_kafka_resp_err_t error, void *) noexcept
{
    connection.answered = request == kProduce && error == RD_KAFKA_RESP_ERR_NO_ERROR;
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

// What is tried again is not reported. What is given up for another reason than an answer, at any
// time and in any thread, has no broker.
rd_kafka_resp_err_t
on_acknowledgement(rd_kafka_t *, rd_kafka_message_t *message, void *) noexcept
{
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR || !connection.answered ||
        connection.socket == -1 || rd_kafka_message_broker_id(message) == -1)
        return RD_KAFKA_RESP_ERR_NO_ERROR;
    // It fails only if the broker has ended it. librdkafka closes it when it finds it ended.
    static_cast<void>(shutdown(connection.socket, SHUT_RDWR));
    connection.socket = -1;
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

rd_kafka_resp_err_t
on_new(rd_kafka_t *client, const rd_kafka_conf_t *, void *, char *, std::size_t) noexcept
{
    began = true;
    const rd_kafka_resp_err_t errors[] = {
        rd_kafka_interceptor_add_on_request_sent(client, kName, on_request_sent, nullptr),
        rd_kafka_interceptor_add_on_response_received(client, kName, on_response_received, nullptr),
        rd_kafka_interceptor_add_on_acknowledgement(client, kName, on_acknowledgement, nullptr)};
    for (const rd_kafka_resp_err_t error : errors)
        if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
            return error;
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

} // namespace

void
end_connections_of_refusals(rd_kafka_conf_t *config) noexcept
{
    began = false;
    // Fails only when it is there already.
    static_cast<void>(rd_kafka_conf_interceptor_add_on_new(config, kName, on_new, nullptr));
}

bool
has_freed_interceptors() noexcept
{
    return began;
}

} // namespace outbox::kafka
