#include "cloudevents.h"

namespace outbox
{

namespace
{

constexpr std::string_view kOwnHeaders[] = {"ce_specversion",   "ce_id",           "ce_source",
                                            "ce_type",          "ce_time",         "ce_subject",
                                            "ce_aggregatetype", "ce_schemaversion"};

constexpr const char *kSourceHint =
    "It is a URI-reference such as /shop or https://example.com/shop; other characters are "
    "percent-encoded.";

constexpr std::string_view kStructuredMode = "application/cloudevents";

constexpr char kUpperHex[] = "0123456789ABCDEF";

bool
is_one_of(char c, std::string_view set) noexcept
{
    return set.find(c) != std::string_view::npos;
}

// RFC 3986: unreserved, in ASCII.
bool
is_unreserved(char c) noexcept
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           is_one_of(c, "-._~");
}

bool
is_hex(char c) noexcept
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// pchar, without the percent sign.
bool
is_path_character(char c) noexcept
{
    return is_unreserved(c) || is_one_of(c, "!$&'()*+,;=:@");
}

char
lower(char c) noexcept
{
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

// `low` is in lower case.
bool
is_same(std::string_view text, std::string_view low) noexcept
{
    if (text.size() != low.size())
        return false;
    for (std::size_t i = 0; i < low.size(); i++)
        if (lower(text[i]) != low[i])
            return false;
    return true;
}

} // namespace

bool
is_cloudevents_header(std::string_view name) noexcept
{
    for (const std::string_view own : kOwnHeaders)
        if (is_same(name, own))
            return true;
    return false;
}

bool
ContentType::take(std::string_view name, std::string_view type) noexcept
{
    const int its_rank = name == kContentType                  ? 3
                         : is_same(name, kContentType)         ? 2
                         : is_same(name, "ce_datacontenttype") ? 1
                                                               : 0;
    if (its_rank > rank && !is_same(type.substr(0, kStructuredMode.size()), kStructuredMode))
    {
        value = type;
        rank = its_rank;
    }
    return its_rank > 0;
}

bool
is_attribute_text(std::string_view text) noexcept
{
    for (std::size_t i = 0; i < text.size(); i++)
    {
        const unsigned char c = static_cast<unsigned char>(text[i]);
        if (c < 0x20 || c == 0x7f)
            return false;
        if (c < 0x80)
            continue;
        const auto next = [&](std::size_t n)
        { return i + n < text.size() ? static_cast<unsigned char>(text[i + n]) : 0U; };
        // U+0080 to U+009F; U+FDD0 to U+FDEF; the last two of each plane.
        if ((c == 0xc2 && next(1) < 0xa0) ||
            (c == 0xef && next(1) == 0xb7 && next(2) >= 0x90 && next(2) <= 0xaf) ||
            (c == 0xef && next(1) == 0xbf && next(2) >= 0xbe) ||
            (c >= 0xf0 && (next(1) & 0x0f) == 0x0f && next(2) == 0xbf && next(3) >= 0xbe))
            return false;
    }
    return true;
}

Verdict
check_source(std::string_view text) noexcept
{
    constexpr std::size_t kMaxBytes = 1000;
    if (text.size() > kMaxBytes)
        return refuse(kSourceHint, "is longer than 1000 bytes");
    bool in_fragment = false;
    for (std::size_t i = 0; i < text.size(); i++)
    {
        const char c = text[i];
        if (c == '%')
        {
            if (text.size() - i < 3 || !is_hex(text[i + 1]) || !is_hex(text[i + 2]))
                return refuse(kSourceHint, "has a \"%%\" without two hexadecimal digits");
            i += 2;
            continue;
        }
        if (c == '#' && in_fragment)
            return refuse(kSourceHint, "has a second \"#\"");
        in_fragment = in_fragment || c == '#';
        if (!is_path_character(c) && !is_one_of(c, "/?#[]"))
            return refuse(kSourceHint, "has a character that a URI-reference does not allow");
    }
    return {};
}

std::size_t
default_source(std::string_view name, char *buffer) noexcept
{
    char *at = buffer;
    *at++ = '/';
    for (const char c : name)
    {
        if (is_path_character(c))
        {
            *at++ = c;
            continue;
        }
        const unsigned char byte = static_cast<unsigned char>(c);
        *at++ = '%';
        *at++ = kUpperHex[byte >> 4];
        *at++ = kUpperHex[byte & 15];
    }
    return static_cast<std::size_t>(at - buffer);
}

} // namespace outbox
