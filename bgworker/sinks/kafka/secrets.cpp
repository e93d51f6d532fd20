#include "secrets.h"

#include <algorithm>
#include <cstring>

namespace outbox::kafka
{

namespace
{

constexpr std::string_view kMask = "***";
constexpr std::size_t kShortest = 4;
static_assert(kMask.size() < kShortest, "masking happens in place");

// Returns how long the text is then.
std::size_t
mask_one(char *text, std::size_t size, std::string_view secret) noexcept
{
    for (std::size_t at = 0;
         (at = std::string_view(text, size).find(secret, at)) != std::string_view::npos;)
    {
        const std::size_t rest = at + secret.size();
        at += kMask.copy(text + at, kMask.size());
        std::memmove(text + at, text + rest, size - rest);
        size -= rest - at;
    }
    return size;
}

} // namespace

void
Secrets::add(std::string_view value)
{
    if (value.size() < kShortest ||
        std::find(values_.begin(), values_.end(), value) != values_.end())
        return;
    const auto shorter = [&](const std::string &other) { return other.size() < value.size(); };
    values_.emplace(std::find_if(values_.begin(), values_.end(), shorter), value);
}

std::size_t
Secrets::mask(char *text, std::size_t size) const noexcept
{
    for (const std::string &secret : values_)
        size = mask_one(text, size, secret);
    return size;
}

void
Secrets::mask(char *text) const noexcept
{
    text[mask(text, std::strlen(text))] = '\0';
}

void
Secrets::mask(std::string &text) const noexcept
{
    text.resize(mask(text.data(), text.size()));
}

} // namespace outbox::kafka
