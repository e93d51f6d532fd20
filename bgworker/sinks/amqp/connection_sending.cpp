// What goes to RabbitMQ. The library waits until a socket takes what it writes; so nothing is
// written before the socket has room for it. Large messages go in parts.
#include "connection.h"

#include "bytes.h"
#include "library.h"
#include "shown.h"

#include <algorithm>
#include <ctime>
#include <poll.h>

namespace outbox::amqp
{

namespace
{

constexpr amqp_channel_t kChannel = 1;
constexpr std::size_t kFrameOverhead = 8;
constexpr std::uint8_t kPersistent = 2;

amqp_basic_properties_t
properties_of(const Message &message, std::vector<amqp_table_entry_t> &headers) noexcept
{
    amqp_basic_properties_t properties = {};
    properties._flags =
        AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_TIMESTAMP_FLAG | AMQP_BASIC_HEADERS_FLAG;
    properties.delivery_mode = kPersistent;
    properties.timestamp = message.timestamp_ms > 0
                               ? static_cast<std::uint64_t>(message.timestamp_ms / 1000)
                               : static_cast<std::uint64_t>(std::time(nullptr));
    properties.headers.num_entries = static_cast<int>(headers.size());
    properties.headers.entries = headers.data();
    const auto set = [&](amqp_flags_t flag, amqp_bytes_t &field, std::string_view text)
    {
        if (text.empty())
            return;
        properties._flags |= flag;
        field = bytes_of(text);
    };
    set(AMQP_BASIC_MESSAGE_ID_FLAG, properties.message_id, message.id());
    set(AMQP_BASIC_TYPE_FLAG, properties.type, message.type());
    set(AMQP_BASIC_CONTENT_TYPE_FLAG, properties.content_type, message.content_type());
    return properties;
}

} // namespace

// A socket that poll() calls writable has at least a third of its buffer free. That is more than a
// chunk, whatever the kernel adds to it.
bool
Connection::may_write(std::size_t bytes) noexcept
{
    if (bytes > budget_)
    {
        pollfd wanted = {fd(), POLLOUT, 0};
        if (poll(&wanted, 1, 0) != 1)
            return false;
        budget_ = chunk_;
    }
    budget_ -= std::min(budget_, bytes);
    return true;
}

void
Connection::fill_headers(const Message &message)
{
    headers_.clear();
    const auto add = [&](std::string_view name) -> amqp_field_value_t &
    {
        headers_.emplace_back();
        headers_.back().key = bytes_of(name);
        return headers_.back().value;
    };
    for (std::size_t i = 0; i < message.header_count(); i++)
    {
        const Header header = message.header(i);
        amqp_field_value_t &value = add(header.name);
        value.kind = AMQP_FIELD_KIND_VOID;
        if (header.is_null)
            continue;
        value.kind = AMQP_FIELD_KIND_UTF8;
        value.value.bytes = bytes_of(header.value);
    }
    if (!message.tombstone)
        return;
    amqp_field_value_t &value = add("tombstone");
    value.kind = AMQP_FIELD_KIND_BOOLEAN;
    value.value.boolean = 1;
}

Connection::Sent
Connection::sent(int status, Failure &why) noexcept
{
    if (status == AMQP_STATUS_OK)
        return Sent::all;
    why = failure_of_library(status, "sending");
    return Sent::broken;
}

Connection::Sent
Connection::publish(const Message &message, Failure &why)
{
    constexpr std::size_t kMethod = 64;
    if (in_message_)
        return publish_body(message, why);
    const std::size_t header = message.header_frame_size() + kFrameOverhead;
    if (header > frame_max_)
    {
        set_failure(why, FailureClass::event, "HEADERS_TOO_LARGE",
                    "the headers take %zu bytes, this RabbitMQ allows %zu (frame_max)", header,
                    frame_max_);
        return Sent::refused;
    }
    const std::size_t begin =
        kMethod + settings_.exchange.size() + message.routing_key().size() + header;
    const std::size_t all =
        begin + message.body().size() + (message.body().size() / frame_max_ + 1) * kFrameOverhead;
    fill_headers(message);
    expect_frames(message);
    if (all > chunk_)
        return may_write(begin) ? publish_begin(message, why) : Sent::part;
    return may_write(all) ? publish_small(message, why) : Sent::part;
}

Connection::Sent
Connection::publish_small(const Message &message, Failure &why)
{
    const amqp_basic_properties_t properties = properties_of(message, headers_);
    return sent(amqp_basic_publish(state_.get(), kChannel, bytes_of(settings_.exchange),
                                   bytes_of(message.routing_key()), settings_.mandatory ? 1 : 0, 0,
                                   &properties, bytes_of(message.body())),
                why);
}

Connection::Sent
Connection::publish_begin(const Message &message, Failure &why)
{
    amqp_basic_publish_t method = {};
    method.exchange = bytes_of(settings_.exchange);
    method.routing_key = bytes_of(message.routing_key());
    method.mandatory = settings_.mandatory ? 1 : 0;
    Sent result =
        sent(amqp_send_method(state_.get(), kChannel, AMQP_BASIC_PUBLISH_METHOD, &method), why);
    if (result != Sent::all)
        return result;
    amqp_basic_properties_t properties = properties_of(message, headers_);
    amqp_frame_t frame = {};
    frame.frame_type = AMQP_FRAME_HEADER;
    frame.channel = kChannel;
    frame.payload.properties.class_id = AMQP_BASIC_CLASS;
    frame.payload.properties.body_size = message.body().size();
    frame.payload.properties.decoded = &properties;
    result = sent(amqp_send_frame(state_.get(), &frame), why);
    if (result != Sent::all)
        return result;
    in_message_ = true;
    sent_of_body_ = 0;
    return publish_body(message, why);
}

Connection::Sent
Connection::publish_body(const Message &message, Failure &why)
{
    const std::size_t most = std::min(chunk_, frame_max_) - kFrameOverhead;
    while (sent_of_body_ < message.body().size())
    {
        const std::string_view part = message.body().substr(sent_of_body_, most);
        if (!may_write(part.size() + kFrameOverhead))
            return Sent::part;
        amqp_frame_t frame = {};
        frame.frame_type = AMQP_FRAME_BODY;
        frame.channel = kChannel;
        frame.payload.body_fragment = bytes_of(part);
        const Sent result = sent(amqp_send_frame(state_.get(), &frame), why);
        if (result != Sent::all)
            return result;
        sent_of_body_ += part.size();
    }
    in_message_ = false;
    return Sent::all;
}

} // namespace outbox::amqp
