// Short numbers for the names of topics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace outbox
{

// The first kTopics names get a number each, all further ones share kOther. Fixed memory, no
// exceptions. Asked once for each event, so a hit costs a few nanoseconds.
class TopicTable
{
public:
    static constexpr std::uint16_t kTopics = 64;
    static constexpr std::uint16_t kOther = kTopics;
    static constexpr std::size_t kLongest = 255;

    // The name's number; a name that has none gets the lowest that is free. Names longer than
    // kLongest have kOther.
    std::uint16_t find(std::string_view name) noexcept;

    // Gives a name this number, which must be free; for names that are known from before.
    void set(std::uint16_t number, std::string_view name) noexcept;

    // Empty when the number is free.
    std::string_view name(std::uint16_t number) const noexcept
    {
        return {names_[number], lengths_[number]};
    }

    void clear() noexcept;

private:
    static constexpr std::size_t kPlaces = 256; // four a name: short runs

    static std::size_t place_of(std::string_view name) noexcept;
    bool is(std::uint16_t number, std::string_view wanted) const noexcept
    {
        return name(number) == wanted;
    }

    char names_[kTopics][kLongest + 1] = {};
    std::uint8_t lengths_[kTopics] = {};
    std::uint8_t places_[kPlaces] = {}; // number plus 1; 0: free
    std::uint16_t used_ = 0;
    std::uint16_t last_ = 0; // what was asked for before
};

} // namespace outbox
