// What a destination gets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace outbox
{

struct Header
{
    std::string_view name;
    std::string_view value;
    bool is_null = false;
};

// Points to memory of who made it; a sink copies what it takes.
struct Record
{
    std::string_view topic;
    std::string_view key;
    const void *value = nullptr;
    std::size_t value_size = 0;
    // A null value; an empty value is another thing.
    bool tombstone = false;
    const Header *headers = nullptr;
    std::size_t header_count = 0;
    // Milliseconds since 1970; 0 stands for now.
    std::int64_t timestamp_ms = 0;
    // Given back when the record's fate is known.
    std::uint64_t tag = 0;
};

// Bytes of a record's key, value and headers, as they are before compression.
inline std::size_t
size_of(const Record &record) noexcept
{
    std::size_t bytes = record.key.size() + record.value_size;
    for (std::size_t i = 0; i < record.header_count; i++)
        bytes += record.headers[i].name.size() + record.headers[i].value.size();
    return bytes;
}

// What a record takes in memory while it is in flight, roughly.
inline std::size_t
size_in_flight(const Record &record) noexcept
{
    // A sink keeps each header in a piece of memory of its own.
    constexpr std::size_t kHeaderOverhead = 80;
    constexpr std::size_t kRecordOverhead = 320;
    return kRecordOverhead + size_of(record) + kHeaderOverhead * record.header_count;
}

} // namespace outbox
