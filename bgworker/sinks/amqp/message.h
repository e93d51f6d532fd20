// A record on its way to RabbitMQ.
#pragma once

#include "bgworker/engine/failure.h"
#include "bgworker/engine/record.h"
#include "extension/core/event_template.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace outbox::amqp
{

enum class Outcome : unsigned char
{
    delivered,
    failed
};

struct Line;
struct Share;

// Belongs to one of the two threads at a time.
class Message
{
public:
    // Copies the record, to be sent with the routing key that the template makes of it; null and
    // the reason when it has no form in AMQP. May throw std::bad_alloc.
    static std::unique_ptr<Message> make(const Record &record, const EventTemplate &routing_key,
                                         Failure &why);
    ~Message();
    Message(const Message &) = delete;
    Message &operator=(const Message &) = delete;

    // Topic and key: of such a lane one message is under way.
    std::string_view lane() const noexcept { return part(0, lane_); }
    std::string_view key() const noexcept { return part(topic_ + 1, lane_); }
    std::string_view routing_key() const noexcept { return part(lane_, routing_key_); }
    std::string_view id() const noexcept { return part(routing_key_, id_); }
    // Empty when it is too long for a property.
    std::string_view type() const noexcept { return part(id_, type_); }
    std::string_view content_type() const noexcept { return part(type_, content_type_); }
    std::string_view body() const noexcept { return std::string_view(bytes_).substr(body_); }

    std::size_t header_count() const noexcept { return headers_.size(); }
    Header header(std::size_t i) const noexcept;
    // What properties and headers take in a frame, at most.
    std::size_t header_frame_size() const noexcept { return header_frame_size_; }
    // In memory, as the engine counts.
    std::size_t size() const noexcept { return size_; }

    std::uint64_t tag = 0;
    std::int64_t timestamp_ms = 0;
    bool tombstone = false;

    // The next one of a list.
    Message *next = nullptr;
    // The line that it holds up; see lanes.h.
    Line *line = nullptr;
    // Of its routing key, while it is on its way; see shares.h.
    Share *share = nullptr;

    // How often RabbitMQ has said no to it since it was queued.
    int nacks = 0;
    // It was sent once, without an answer.
    bool possibly_persisted = false;
    // One of those that were on their way when RabbitMQ closed the channel for one of them.
    bool suspect = false;

    Outcome outcome = Outcome::delivered;
    std::unique_ptr<Failure> failure;

private:
    struct Ends
    {
        std::size_t name;
        std::size_t value;
        bool is_null;
    };

    Message() = default;
    void add(std::string_view text, std::size_t &end);
    void add_header(const Header &header);
    std::string_view part(std::size_t begin, std::size_t end) const noexcept
    {
        return std::string_view(bytes_).substr(begin, end - begin);
    }

    // One after the other; each number is the end of a part.
    std::string bytes_;
    std::size_t topic_ = 0;
    std::size_t lane_ = 0;
    std::size_t routing_key_ = 0;
    std::size_t id_ = 0;
    std::size_t type_ = 0;
    std::size_t content_type_ = 0;
    std::vector<Ends> headers_;
    std::size_t body_ = 0; // begins here
    std::size_t header_frame_size_ = 0;
    std::size_t size_ = 0;
};

// Messages in a row. Nothing here allocates.
class MessageList
{
public:
    MessageList() = default;
    MessageList(MessageList &&other) noexcept { append(std::move(other)); }
    MessageList &operator=(MessageList &&) = delete;
    ~MessageList() { clear(); }

    bool empty() const noexcept { return first_ == nullptr; }
    std::size_t size() const noexcept { return size_; }
    const Message &front() const noexcept { return *first_; }
    void push(std::unique_ptr<Message> message) noexcept;
    void push_front(std::unique_ptr<Message> message) noexcept;
    std::unique_ptr<Message> pop() noexcept; // null: none
    void append(MessageList &&other) noexcept;
    void clear() noexcept;

private:
    Message *first_ = nullptr;
    Message *last_ = nullptr;
    std::size_t size_ = 0;
};

} // namespace outbox::amqp
