#include "secrets.h"

#include <algorithm>

namespace outbox::http
{

void
Secrets::add(std::string_view value)
{
    constexpr std::size_t kShortest = 4;
    if (value.size() < kShortest)
        return;
    const auto shorter =
        std::find_if(values_.begin(), values_.end(),
                     [&](const std::string &known) { return known.size() < value.size(); });
    values_.emplace(shorter, value);
}

void
Secrets::mask(std::string &text) const
{
    constexpr std::string_view kMask = "***";
    for (const std::string &value : values_)
        for (std::size_t at = 0; (at = text.find(value, at)) != std::string::npos;
             at += kMask.size())
            text.replace(at, value.size(), kMask);
}

} // namespace outbox::http
