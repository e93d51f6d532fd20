#include "secrets.h"

#include <algorithm>
#include <cstring>

namespace outbox
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

// As a program writes it that repeats it in JSON: some escape slashes too.
std::string
in_json(std::string_view value, std::string_view escaped)
{
    std::string text;
    for (const char c : value)
    {
        if (escaped.find(c) != std::string_view::npos)
            text += '\\';
        text += c;
    }
    return text;
}

} // namespace

void
mask_secret(char *text, std::string_view secret) noexcept
{
    if (secret.size() >= kShortest)
        text[mask_one(text, std::strlen(text), secret)] = '\0';
}

void
Secrets::add(std::string_view value)
{
    remember(value);
    remember(in_json(value, "\"\\"));
    remember(in_json(value, "\"\\/"));
}

void
Secrets::remember(std::string_view value)
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

// How many bytes at the end of the text are the beginning of a secret.
std::size_t
Secrets::begun_at_end(std::string_view text) const noexcept
{
    std::size_t longest = 0;
    for (const std::string &value : values_)
        for (std::size_t size = std::min(value.size() - 1, text.size()); size > longest; size--)
            if (value.compare(0, size, text.substr(text.size() - size)) == 0)
                longest = size;
    return longest;
}

void
Secrets::mask_cut(std::string &text) const
{
    mask(text);
    if (const std::size_t begun = begun_at_end(text); begun > 0)
        text.replace(text.size() - begun, begun, kMask);
}

void
Secrets::mask_cut(char *text) const noexcept
{
    mask(text);
    const std::size_t size = std::strlen(text);
    const std::size_t begun = begun_at_end({text, size});
    const std::string_view shown = kMask.substr(0, begun);
    text[size - begun + shown.copy(text + size - begun, shown.size())] = '\0';
}

} // namespace outbox
