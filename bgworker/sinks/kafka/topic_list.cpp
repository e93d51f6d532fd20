#include "topic_list.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace outbox::kafka
{

namespace
{

// How long a list counts; longer when there are so many topics that it takes long.
constexpr std::int64_t kListMs = 1000;
constexpr std::int64_t kListShare = 10;

} // namespace

bool
TopicList::has(std::string_view name) const noexcept
{
    return std::binary_search(hashes_.begin(), hashes_.end(), std::hash<std::string_view>()(name));
}

bool
TopicList::take(Scout::List list, std::int64_t now) noexcept
{
    asked_ = false;
    if (!list.has_come)
    {
        at_ms_ = now + kListMs;
        return false;
    }
    wanted_ = false;
    hashes_ = std::move(list.hashes);
    until_ms_ = now + std::max(kListMs, kListShare * list.took_ms);
    return true;
}

} // namespace outbox::kafka
