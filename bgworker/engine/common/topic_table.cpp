#include "topic_table.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace outbox
{

// Names of topics tend to begin alike and to differ at their end.
std::size_t
TopicTable::place_of(std::string_view name) noexcept
{
    std::uint64_t end = 0;
    const std::size_t bytes = std::min(sizeof(end), name.size());
    std::memcpy(&end, name.data() + name.size() - bytes, bytes);
    const std::uint64_t mixed = (end ^ name.size()) * 0x9e3779b97f4a7c15U;
    return static_cast<std::size_t>(mixed >> 56) % kPlaces;
}

std::uint16_t
TopicTable::find(std::string_view name) noexcept
{
    if (name.empty() || name.size() > kLongest)
        return kOther;
    if (is(last_, name))
        return last_;
    std::size_t place = place_of(name);
    for (; places_[place] != 0; place = (place + 1) % kPlaces)
    {
        const auto number = static_cast<std::uint16_t>(places_[place] - 1);
        if (is(number, name))
            return last_ = number;
    }
    if (used_ == kTopics)
        return kOther;
    std::uint16_t number = 0;
    while (lengths_[number] != 0)
        number++;
    set(number, name);
    return last_ = number;
}

void
TopicTable::set(std::uint16_t number, std::string_view name) noexcept
{
    assert(number < kTopics && lengths_[number] == 0 && !name.empty() && name.size() <= kLongest);
    std::memcpy(names_[number], name.data(), name.size());
    lengths_[number] = static_cast<std::uint8_t>(name.size());
    used_++;
    std::size_t place = place_of(name);
    while (places_[place] != 0)
        place = (place + 1) % kPlaces;
    places_[place] = static_cast<std::uint8_t>(number + 1);
}

void
TopicTable::clear() noexcept
{
    *this = TopicTable();
}

} // namespace outbox
