#include "signature.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <climits>

namespace outbox::http
{

namespace
{

constexpr std::string_view kPrefix = "whsec_";
// The specification: at least 192 bits, at most 512.
constexpr std::size_t kShortest = 24;
constexpr std::size_t kLongest = 64;
constexpr const char *kHint = "It holds one secret a line, two while they rotate: whsec_ and 24 to "
                              "64 random bytes in base64.";

constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int
digit_of(char c) noexcept
{
    const std::string_view digits(kDigits, 64);
    const std::size_t at = digits.find(c);
    return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

std::string_view
trim(std::string_view text) noexcept
{
    constexpr const char *kSpace = " \t\r";
    const std::size_t first = text.find_first_not_of(kSpace);
    if (first == std::string_view::npos)
        return {};
    return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

} // namespace

std::string
to_base64(std::string_view bytes)
{
    std::string text;
    text.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 3)
    {
        const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
        unsigned bits = 0;
        for (std::size_t j = 0; j < 3; j++)
            bits = bits << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0u);
        for (std::size_t j = 0; j < 4; j++)
            text += j <= count ? kDigits[bits >> (18 - 6 * j) & 63] : '=';
    }
    return text;
}

bool
from_base64(std::string_view text, std::string &bytes)
{
    bytes.clear();
    for (int padding = 0; padding < 2 && !text.empty() && text.back() == '='; padding++)
        text.remove_suffix(1);
    if (text.size() % 4 == 1)
        return false;
    unsigned bits = 0;
    int count = 0;
    for (const char c : text)
    {
        const int digit = digit_of(c);
        if (digit < 0)
            return false;
        bits = bits << 6 | static_cast<unsigned>(digit);
        count += 6;
        if (count >= 8)
        {
            count -= 8;
            bytes += static_cast<char>(bits >> count & 0xff);
        }
    }
    return true;
}

Verdict
parse_secrets(std::string_view content, SigningKeys &keys)
{
    keys.clear();
    int number = 0;
    while (!content.empty())
    {
        const std::size_t end = std::min(content.find('\n'), content.size());
        std::string_view line = trim(content.substr(0, end));
        content.remove_prefix(std::min(end + 1, content.size()));
        number++;
        if (line.empty() || line.front() == '#')
            continue;
        if (line.substr(0, kPrefix.size()) != kPrefix)
            return refuse(kHint, "line %d does not begin with whsec_", number);
        line.remove_prefix(kPrefix.size());
        std::string key;
        if (!from_base64(line, key))
            return refuse(kHint, "line %d is no base64 behind whsec_", number);
        if (key.size() < kShortest || key.size() > kLongest)
            return refuse(kHint, "the secret in line %d has %zu bytes", number, key.size());
        if (keys.size() == 2)
            return refuse(kHint, "line %d is a third secret", number);
        keys.push_back(std::move(key));
    }
    return keys.empty() ? refuse(kHint, "there is no secret in it") : Verdict();
}

bool
sign(const SigningKeys &keys, std::string_view id, std::int64_t timestamp, std::string_view body,
     std::string &signature)
{
    signature.clear();
    std::string content;
    content.reserve(id.size() + 24 + body.size());
    content.append(id).append(".").append(std::to_string(timestamp)).append(".").append(body);
    for (const std::string &key : keys)
    {
        unsigned char digest[EVP_MAX_MD_SIZE];
        unsigned size = 0;
        if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                 reinterpret_cast<const unsigned char *>(content.data()), content.size(), digest,
                 &size) == nullptr)
            return false;
        signature += signature.empty() ? "v1," : " v1,";
        signature += to_base64({reinterpret_cast<const char *>(digest), size});
    }
    return true;
}

} // namespace outbox::http
