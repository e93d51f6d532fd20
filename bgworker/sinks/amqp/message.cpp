#include "message.h"

#include "settings.h"

#include "bgworker/sinks/record_headers.h"

#include <utility>

namespace outbox::amqp
{

namespace
{

// What a consumer needs of the record's key, and what AMQP has no word for.
constexpr std::string_view kKeyHeader = "key";

bool
has_header(const Record &record, std::string_view name) noexcept
{
    for (std::size_t i = 0; i < record.header_count; i++)
        if (record.headers[i].name == name)
            return true;
    return false;
}

} // namespace

Message::~Message() = default;

void
Message::add(std::string_view text, std::size_t &end)
{
    bytes_ += text;
    end = bytes_.size();
}

void
Message::add_header(const Header &header)
{
    Ends ends = {0, 0, header.is_null};
    add(header.name, ends.name);
    add(header.value, ends.value);
    headers_.push_back(ends);
    constexpr std::size_t kLengthsAndKind = 1 + 1 + 4;
    header_frame_size_ += header.name.size() + header.value.size() + kLengthsAndKind;
}

Header
Message::header(std::size_t i) const noexcept
{
    const std::size_t begin = i == 0 ? content_type_ : headers_[i - 1].value;
    const Ends &ends = headers_[i];
    return {part(begin, ends.name), part(ends.name, ends.value), ends.is_null};
}

std::unique_ptr<Message>
Message::make(const Record &record, const EventTemplate &routing_key, Failure &why)
{
    constexpr std::size_t kFixedProperties = 64;
    std::unique_ptr<Message> message(new Message);
    Message &made = *message;
    const EventNames names = names_of(record);
    const std::string_view type = names.event_type;
    made.bytes_.reserve(size_of(record) + 2 * (record.topic.size() + record.key.size()) + 512);
    made.add(record.topic, made.topic_);
    made.add(std::string_view("\0", 1), made.lane_);
    made.add(record.key, made.lane_);
    for (const EventTemplate::Part &part : routing_key.parts())
        made.add(EventTemplate::text_of(part, names), made.routing_key_);
    if (const std::size_t size = made.bytes_.size() - made.lane_; size > kMaxName)
    {
        set_failure(why, FailureClass::event, "ROUTING_KEY_TOO_LONG",
                    "the routing key takes %zu bytes, AMQP allows %zu", size, kMaxName);
        return nullptr;
    }
    const std::string_view id = id_of(record);
    made.add(id.size() <= kMaxName ? id : std::string_view(), made.id_);
    made.add(type.size() <= kMaxName ? type : std::string_view(), made.type_);
    const std::string_view content_type = find_header(record, {"content-type"});
    made.add(content_type.size() <= kMaxName ? content_type : std::string_view(),
             made.content_type_);
    made.headers_.reserve(record.header_count + 1);
    if (!has_header(record, kKeyHeader))
        made.add_header({kKeyHeader, record.key});
    for (std::size_t i = 0; i < record.header_count; i++)
    {
        if (record.headers[i].name.size() > kMaxName)
        {
            set_failure(why, FailureClass::event, "HEADER_NAME_TOO_LONG",
                        "the name of a header takes %zu bytes, AMQP allows %zu",
                        record.headers[i].name.size(), kMaxName);
            return nullptr;
        }
        made.add_header(record.headers[i]);
    }
    made.header_frame_size_ +=
        kFixedProperties + made.id().size() + made.type().size() + made.content_type().size();
    made.body_ = made.bytes_.size();
    if (record.value_size > 0)
        made.bytes_.append(static_cast<const char *>(record.value), record.value_size);
    made.tag = record.tag;
    made.timestamp_ms = record.timestamp_ms;
    made.tombstone = record.tombstone;
    made.size_ = size_in_flight(record);
    return message;
}

void
MessageList::push(std::unique_ptr<Message> message) noexcept
{
    message->next = nullptr;
    (last_ == nullptr ? first_ : last_->next) = message.get();
    last_ = message.release();
    size_++;
}

void
MessageList::push_front(std::unique_ptr<Message> message) noexcept
{
    message->next = first_;
    if (last_ == nullptr)
        last_ = message.get();
    first_ = message.release();
    size_++;
}

std::unique_ptr<Message>
MessageList::pop() noexcept
{
    std::unique_ptr<Message> message(first_);
    if (!message)
        return nullptr;
    first_ = std::exchange(message->next, nullptr);
    if (first_ == nullptr)
        last_ = nullptr;
    size_--;
    return message;
}

void
MessageList::append(MessageList &&other) noexcept
{
    if (other.first_ == nullptr)
        return;
    (last_ == nullptr ? first_ : last_->next) = std::exchange(other.first_, nullptr);
    last_ = std::exchange(other.last_, nullptr);
    size_ += std::exchange(other.size_, 0);
}

void
MessageList::clear() noexcept
{
    while (pop())
        ;
}

} // namespace outbox::amqp
