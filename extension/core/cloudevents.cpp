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

} // namespace

bool
is_cloudevents_header(std::string_view name) noexcept
{
    if (name.substr(0, 3) != "ce_")
        return false;
    for (const std::string_view own : kOwnHeaders)
        if (name == own)
            return true;
    return false;
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
            return refuse(kSourceHint, "has a character that a URI-reference does not take");
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
