// Which route an event takes: the rows of outbox.routes, and how one is chosen.
#pragma once

#include "cloudevents.h"
#include "topic_template.h"

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace outbox
{

// Rows that a table may have, and bytes of a type in one.
constexpr std::size_t kMaxRoutes = 10000;
constexpr std::size_t kMaxRouteTypeBytes = 1000;

// In place of a type: any.
constexpr std::string_view kAnyType = "*";

// A row as it is written. What is missing falls back to the settings.
struct RouteText
{
    std::string_view aggregate_type;
    std::string_view event_type;
    std::optional<std::string_view> topic;
    std::optional<std::string_view> on_failure;
    std::optional<std::string_view> headers_format;
};

// A row as it is used.
struct Route
{
    bool has_topic = false;
    TopicTemplate topic;
    std::optional<bool> blocks; // on_failure
    std::optional<HeadersFormat> headers;
};

// Reads a row; `route` is only complete when it is taken. The reason completes a sentence that
// starts with "its".
Verdict read_route(const RouteText &text, Route *route) noexcept;

// The texts of on_failure and headers_format.
const char *on_failure_name(bool blocks) noexcept;
const char *headers_format_name(HeadersFormat format) noexcept;

// A whole table. The most specific row wins: both types, then the aggregate type alone, then the
// event type alone, then neither. Each pair of types has one row at most, so there are no ties.
class RouteTable
{
public:
    struct Entry
    {
        std::string aggregate_type;
        std::string event_type;
        Route route;
    };

    RouteTable() = default; // may throw std::bad_alloc
    RouteTable(const RouteTable &) = delete;
    RouteTable &operator=(const RouteTable &) = delete;

    // Adds a row; the reason of a refusal is as read_route() gives it.
    Verdict add(const RouteText &text) noexcept;

    // The row for an event of these types; nullptr: none, as the settings say. At most four looks
    // into a hash table, whatever the number of rows.
    const Entry *find(std::string_view aggregate_type, std::string_view event_type) const noexcept;

    bool empty() const noexcept { return entries_.empty(); }
    std::size_t size() const noexcept { return entries_.size(); }

private:
    struct Types
    {
        std::string_view aggregate_type;
        std::string_view event_type;
        bool operator==(const Types &other) const noexcept
        {
            return aggregate_type == other.aggregate_type && event_type == other.event_type;
        }
    };
    struct Hash
    {
        std::size_t operator()(const Types &types) const noexcept
        {
            constexpr std::size_t kOdd = 0x9e3779b97f4a7c15;
            const std::hash<std::string_view> hash;
            return hash(types.aggregate_type) * kOdd ^ hash(types.event_type);
        }
    };

    std::deque<Entry> entries_; // stay where they are
    std::unordered_map<Types, const Entry *, Hash> by_types_;
};

} // namespace outbox
