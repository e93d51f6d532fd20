#include "secrets.h"

#include <cstring>

namespace outbox::kafka
{

namespace
{

constexpr std::string_view kMask = "***";
constexpr std::size_t kShortest = 4;
static_assert(kMask.size() < kShortest, "masking happens in place");

void
mask_one(char *text, const std::string &secret) noexcept
{
    char *from = text;
    while ((from = std::strstr(from, secret.c_str())) != nullptr)
    {
        const char *rest = from + secret.size();
        from += kMask.copy(from, kMask.size());
        std::memmove(from, rest, std::strlen(rest) + 1);
    }
}

} // namespace

void
Secrets::add(std::string_view value)
{
    if (value.size() >= kShortest)
        values_.emplace_back(value);
}

void
Secrets::mask(char *text) const noexcept
{
    for (const std::string &secret : values_)
        mask_one(text, secret);
}

} // namespace outbox::kafka
