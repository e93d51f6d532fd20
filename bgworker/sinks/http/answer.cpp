#include "answer.h"

#include <algorithm>

namespace outbox::http
{

namespace
{

// The length of the character that the text begins with; 0: it is no UTF-8.
std::size_t
character(std::string_view text, char32_t &code) noexcept
{
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(0);
    const std::size_t length = first < 0x80   ? 1
                               : first < 0xc2 ? 0
                               : first < 0xe0 ? 2
                               : first < 0xf0 ? 3
                               : first < 0xf5 ? 4
                                              : 0;
    if (length == 0 || text.size() < length)
        return 0;
    constexpr unsigned char kMasks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    code = first & kMasks[length];
    for (std::size_t i = 1; i < length; i++)
    {
        if ((byte(i) & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (byte(i) & 0x3f);
    }
    constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    const bool surrogate = code >= 0xd800 && code <= 0xdfff;
    return code < kLeast[length] || code > 0x10ffff || surrogate ? 0 : length;
}

bool
is_blank(char32_t code) noexcept
{
    return code <= ' ' || (code >= 0x7f && code <= 0xa0) || // C0, DEL, C1
           code == 0x61c || (code >= 0x200b && code <= 0x200f) ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) ||
           code == 0xfeff || (code >= 0xfff0 && code <= 0xfffb) || code >= 0xe0000;
}

} // namespace

Outcome
outcome_of(int status, bool has_retry_after) noexcept
{
    if (status >= 200 && status <= 299)
        return Outcome::delivered;
    if (status == 410)
        return Outcome::gone;
    if (status == 429 || (status == 503 && has_retry_after))
        return Outcome::busy;
    if (status == 408 || status >= 500 || status < 200)
        return Outcome::trouble;
    return Outcome::refused;
}

int
status_of(std::string_view line) noexcept
{
    const auto is_digit = [&](std::size_t at) { return line[at] >= '0' && line[at] <= '9'; };
    for (const std::string_view version : {"HTTP/1.1 ", "HTTP/1.0 ", "HTTP/2 ", "HTTP/3 "})
    {
        const std::size_t at = version.size();
        if (line.substr(0, at) != version)
            continue;
        if (line.size() < at + 3 || !is_digit(at) || !is_digit(at + 1) || !is_digit(at + 2))
            return 0;
        const char behind = line.size() > at + 3 ? line[at + 3] : ' ';
        if (behind != ' ' && behind != '\r' && behind != '\n')
            return 0;
        return (line[at] - '0') * 100 + (line[at + 1] - '0') * 10 + (line[at + 2] - '0');
    }
    return 0;
}

const char *
reason_of(int status) noexcept
{
    constexpr struct
    {
        int status;
        const char *reason;
    } kReasons[] = {{300, "Multiple Choices"},
                    {301, "Moved Permanently"},
                    {302, "Found"},
                    {303, "See Other"},
                    {304, "Not Modified"},
                    {307, "Temporary Redirect"},
                    {308, "Permanent Redirect"},
                    {400, "Bad Request"},
                    {401, "Unauthorized"},
                    {402, "Payment Required"},
                    {403, "Forbidden"},
                    {404, "Not Found"},
                    {405, "Method Not Allowed"},
                    {406, "Not Acceptable"},
                    {407, "Proxy Authentication Required"},
                    {408, "Request Timeout"},
                    {409, "Conflict"},
                    {410, "Gone"},
                    {411, "Length Required"},
                    {412, "Precondition Failed"},
                    {413, "Content Too Large"},
                    {414, "URI Too Long"},
                    {415, "Unsupported Media Type"},
                    {421, "Misdirected Request"},
                    {422, "Unprocessable Content"},
                    {425, "Too Early"},
                    {426, "Upgrade Required"},
                    {429, "Too Many Requests"},
                    {431, "Request Header Fields Too Large"},
                    {451, "Unavailable For Legal Reasons"},
                    {500, "Internal Server Error"},
                    {501, "Not Implemented"},
                    {502, "Bad Gateway"},
                    {503, "Service Unavailable"},
                    {504, "Gateway Timeout"},
                    {505, "HTTP Version Not Supported"},
                    {507, "Insufficient Storage"}};
    const auto known = std::find_if(std::begin(kReasons), std::end(kReasons),
                                    [&](const auto &item) { return item.status == status; });
    return known != std::end(kReasons) ? known->reason : "";
}

std::string
clean_text(std::string_view text, std::size_t most)
{
    std::string clean;
    bool blank = false;
    while (!text.empty())
    {
        char32_t code = 0;
        const std::size_t length = character(text, code);
        const bool skip = length > 0 && is_blank(code);
        const std::string_view shown = length > 0 ? text.substr(0, length) : "?";
        text.remove_prefix(std::max<std::size_t>(length, 1));
        blank = blank || skip;
        if (skip)
            continue;
        const bool space = blank && !clean.empty();
        if (clean.size() + shown.size() + (space ? 1 : 0) > most)
            break;
        clean.append(space ? " " : "").append(shown);
        blank = false;
    }
    return clean;
}

std::int64_t
retry_after_seconds(std::string_view value) noexcept
{
    constexpr std::int64_t kEnough = 1000000000;
    if (value.empty())
        return -1;
    std::int64_t seconds = 0;
    for (const char digit : value)
    {
        if (digit < '0' || digit > '9')
            return -1;
        seconds = std::min(seconds * 10 + (digit - '0'), kEnough);
    }
    return seconds;
}

} // namespace outbox::http
