// Types of events as subscriptions name them.
#pragma once

#include <string_view>

namespace outbox
{

// Whether it is the type, or what the type begins with and `*`.
inline bool
matches_type(std::string_view pattern, std::string_view type) noexcept
{
    if (pattern.empty() || pattern.back() != '*')
        return pattern == type;
    pattern.remove_suffix(1);
    return type.substr(0, pattern.size()) == pattern;
}

} // namespace outbox
