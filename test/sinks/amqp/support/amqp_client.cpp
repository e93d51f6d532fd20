#include "amqp_client.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "bgworker/sinks/amqp/library.h"

namespace outbox::test
{

namespace
{

constexpr amqp_channel_t kChannel = 1;

std::string
text_of(const amqp_bytes_t &bytes)
{
    return bytes.len == 0 ? std::string()
                          : std::string(static_cast<const char *>(bytes.bytes), bytes.len);
}

amqp_bytes_t
bytes_of(const std::string &text)
{
    return {text.size(), const_cast<char *>(text.data())};
}

// Points into what it was made of.
std::vector<amqp_table_entry_t>
entries_of(const AmqpClient::Arguments &arguments)
{
    std::vector<amqp_table_entry_t> entries;
    for (const auto &[name, value] : arguments)
    {
        amqp_table_entry_t entry = {};
        entry.key = bytes_of(name);
        if (value.find_first_not_of("0123456789") == std::string::npos)
        {
            entry.value.kind = AMQP_FIELD_KIND_I64;
            entry.value.value.i64 = std::stoll(value);
        }
        else
        {
            entry.value.kind = AMQP_FIELD_KIND_UTF8;
            entry.value.value.bytes = bytes_of(value);
        }
        entries.push_back(entry);
    }
    return entries;
}

std::optional<std::string>
value_of(const amqp_field_value_t &value)
{
    switch (value.kind)
    {
    case AMQP_FIELD_KIND_UTF8:
    case AMQP_FIELD_KIND_BYTES:
        return text_of(value.value.bytes);
    case AMQP_FIELD_KIND_BOOLEAN:
        return value.value.boolean != 0 ? "true" : "false";
    default:
        return std::nullopt;
    }
}

void
read_properties(const amqp_basic_properties_t &properties, AmqpMessage &message)
{
    const auto has = [&](amqp_flags_t flag) { return (properties._flags & flag) != 0; };
    if (has(AMQP_BASIC_MESSAGE_ID_FLAG))
        message.id = text_of(properties.message_id);
    if (has(AMQP_BASIC_TYPE_FLAG))
        message.type = text_of(properties.type);
    if (has(AMQP_BASIC_CONTENT_TYPE_FLAG))
        message.content_type = text_of(properties.content_type);
    if (has(AMQP_BASIC_DELIVERY_MODE_FLAG))
        message.delivery_mode = properties.delivery_mode;
    if (has(AMQP_BASIC_TIMESTAMP_FLAG))
        message.timestamp = properties.timestamp;
    for (int i = 0; has(AMQP_BASIC_HEADERS_FLAG) && i < properties.headers.num_entries; i++)
        message.headers.emplace_back(text_of(properties.headers.entries[i].key),
                                     value_of(properties.headers.entries[i].value));
}

} // namespace

std::string
AmqpMessage::header(const std::string &name) const
{
    for (const auto &header : headers)
        if (header.first == name)
            return header.second.value_or("(null)");
    return "(none)";
}

void
AmqpClient::Closer::operator()(amqp_connection_state_t_ *state) const noexcept
{
    (void) amqp_destroy_connection(state);
}

AmqpClient::AmqpClient(int port, const std::string &user, const std::string &password,
                       const std::string &vhost)
    : state_(amqp_new_connection())
{
    const timeval limit = {30, 0};
    timeval connect_limit = limit;
    amqp_socket_t *socket = amqp_tcp_socket_new(state_.get());
    (void) amqp_set_handshake_timeout(state_.get(), &limit);
    (void) amqp_set_rpc_timeout(state_.get(), &limit);
    if (amqp_socket_open_noblock(socket, "127.0.0.1", port, &connect_limit) != AMQP_STATUS_OK)
        throw std::runtime_error("cannot connect to RabbitMQ");
    const amqp_rpc_reply_t reply =
        amqp_login(state_.get(), vhost.c_str(), 0, AMQP_DEFAULT_FRAME_SIZE, 0,
                   AMQP_SASL_METHOD_PLAIN, user.c_str(), password.c_str());
    if (reply.reply_type != AMQP_RESPONSE_NORMAL)
        throw std::runtime_error("cannot log in to RabbitMQ");
    (void) amqp_channel_open(state_.get(), kChannel);
    check("opening a channel");
}

AmqpClient::~AmqpClient()
{
    (void) amqp_connection_close(state_.get(), AMQP_REPLY_SUCCESS);
}

void
AmqpClient::check(const char *doing) const
{
    const amqp_rpc_reply_t reply = amqp_get_rpc_reply(state_.get());
    if (reply.reply_type == AMQP_RESPONSE_NORMAL)
        return;
    std::string why = reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION
                          ? amqp_error_string2(reply.library_error)
                          : "RabbitMQ refuses";
    if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION &&
        reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD)
        why = text_of(static_cast<amqp_channel_close_t *>(reply.reply.decoded)->reply_text);
    throw std::runtime_error(std::string(doing) + ": " + why);
}

void
AmqpClient::declare_exchange(const std::string &name, const std::string &type,
                             const Arguments &arguments)
{
    std::vector<amqp_table_entry_t> entries = entries_of(arguments);
    (void) amqp_exchange_declare(state_.get(), kChannel, bytes_of(name), bytes_of(type), 0, 1, 0, 0,
                                 {static_cast<int>(entries.size()), entries.data()});
    check("declaring an exchange");
}

void
AmqpClient::delete_exchange(const std::string &name)
{
    (void) amqp_exchange_delete(state_.get(), kChannel, bytes_of(name), 0);
    check("deleting an exchange");
}

void
AmqpClient::declare_queue(const std::string &name, const Arguments &arguments)
{
    std::vector<amqp_table_entry_t> entries = entries_of(arguments);
    (void) amqp_queue_declare(state_.get(), kChannel, bytes_of(name), 0, 1, 0, 0,
                              {static_cast<int>(entries.size()), entries.data()});
    check("declaring a queue");
}

void
AmqpClient::delete_queue(const std::string &name)
{
    (void) amqp_queue_delete(state_.get(), kChannel, bytes_of(name), 0, 0);
    check("deleting a queue");
}

void
AmqpClient::bind(const std::string &queue, const std::string &exchange, const std::string &key)
{
    (void) amqp_queue_bind(state_.get(), kChannel, bytes_of(queue), bytes_of(exchange),
                           bytes_of(key), amqp_empty_table);
    check("binding a queue");
}

void
AmqpClient::declare_bound(const std::string &queue, const std::string &exchange,
                          const std::string &type, const Arguments &queue_arguments)
{
    declare_exchange(exchange, type);
    declare_queue(queue, queue_arguments);
    bind(queue, exchange);
}

std::size_t
AmqpClient::count(const std::string &queue)
{
    const amqp_queue_declare_ok_t *ok =
        amqp_queue_declare(state_.get(), kChannel, bytes_of(queue), 1, 0, 0, 0, amqp_empty_table);
    check("counting");
    return ok->message_count;
}

void
AmqpClient::purge(const std::string &queue)
{
    (void) amqp_queue_purge(state_.get(), kChannel, bytes_of(queue));
    check("purging");
}

std::optional<AmqpMessage>
AmqpClient::get(const std::string &queue)
{
    amqp_maybe_release_buffers(state_.get());
    const amqp_rpc_reply_t reply = amqp_basic_get(state_.get(), kChannel, bytes_of(queue), 1);
    if (reply.reply_type != AMQP_RESPONSE_NORMAL)
        throw std::runtime_error("cannot get from queue " + queue);
    if (reply.reply.id != AMQP_BASIC_GET_OK_METHOD)
        return std::nullopt;
    const auto *ok = static_cast<amqp_basic_get_ok_t *>(reply.reply.decoded);
    AmqpMessage message;
    message.exchange = text_of(ok->exchange);
    message.routing_key = text_of(ok->routing_key);
    amqp_message_t read;
    if (amqp_read_message(state_.get(), kChannel, &read, 0).reply_type != AMQP_RESPONSE_NORMAL)
        throw std::runtime_error("cannot read from queue " + queue);
    message.body = text_of(read.body);
    read_properties(read.properties, message);
    amqp_destroy_message(&read);
    return message;
}

// A thousand messages in one round trip, and not a message more than are acknowledged.
std::vector<AmqpMessage>
AmqpClient::get_all(const std::string &queue)
{
    constexpr std::size_t kAtOnce = 1000;
    std::vector<AmqpMessage> all;
    while (const std::size_t count = std::min(this->count(queue), kAtOnce))
    {
        (void) amqp_basic_qos(state_.get(), kChannel, 0, static_cast<uint16_t>(count), 0);
        check("setting the prefetch");
        const amqp_basic_consume_ok_t *ok = amqp_basic_consume(
            state_.get(), kChannel, bytes_of(queue), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
        check("consuming");
        const std::string consumer = text_of(ok->consumer_tag);
        std::uint64_t last = 0;
        for (std::size_t i = 0; i < count; i++)
        {
            amqp_envelope_t envelope;
            const timeval limit = {30, 0};
            amqp_maybe_release_buffers(state_.get());
            if (amqp_consume_message(state_.get(), &envelope, &limit, 0).reply_type !=
                AMQP_RESPONSE_NORMAL)
                throw std::runtime_error("cannot consume from queue " + queue);
            AmqpMessage message;
            message.exchange = text_of(envelope.exchange);
            message.routing_key = text_of(envelope.routing_key);
            message.body = text_of(envelope.message.body);
            read_properties(envelope.message.properties, message);
            last = envelope.delivery_tag;
            amqp_destroy_envelope(&envelope);
            all.push_back(std::move(message));
        }
        // In this order: what is acknowledged makes room for more.
        (void) amqp_basic_cancel(state_.get(), kChannel, bytes_of(consumer));
        check("cancelling");
        (void) amqp_basic_ack(state_.get(), kChannel, last, 1);
    }
    return all;
}

} // namespace outbox::test
