#include "signature.h"

#include "extension/core/regular_file.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <algorithm>

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

// Null: the library has refused, or there is no memory.
EVP_MAC_CTX *
new_context() noexcept
{
    EVP_MAC *mac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
    EVP_MAC_CTX *context = mac != nullptr ? EVP_MAC_CTX_new(mac) : nullptr;
    EVP_MAC_free(mac);
    char digest[] = "SHA256";
    const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                                 OSSL_PARAM_construct_end()};
    if (context != nullptr && EVP_MAC_CTX_set_params(context, params) == 1)
        return context;
    EVP_MAC_CTX_free(context);
    return nullptr;
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
    if (has_byte_order_mark(content))
        return refuse(kHasByteOrderMarkHint, "%s", kHasByteOrderMark);
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

void
Signer::Free::operator()(evp_mac_ctx_st *context) const noexcept
{
    EVP_MAC_CTX_free(context);
}

bool
Signer::append(std::string_view id, std::string_view timestamp, std::string_view body,
               std::string &signature)
{
    if (!keys_.empty() && !context_)
        context_.reset(new_context());
    if (!keys_.empty() && !context_)
        return false;
    const auto update = [this](std::string_view text)
    {
        return EVP_MAC_update(context_.get(), reinterpret_cast<const unsigned char *>(text.data()),
                              text.size()) == 1;
    };
    const char *separator = "v1,";
    for (const std::string &key : keys_)
    {
        unsigned char digest[EVP_MAX_MD_SIZE];
        std::size_t size = 0;
        if (EVP_MAC_init(context_.get(), reinterpret_cast<const unsigned char *>(key.data()),
                         key.size(), nullptr) != 1 ||
            !update(id) || !update(".") || !update(timestamp) || !update(".") || !update(body) ||
            EVP_MAC_final(context_.get(), digest, &size, sizeof digest) != 1)
            return false;
        signature += separator;
        signature += to_base64({reinterpret_cast<const char *>(digest), size});
        separator = " v1,";
    }
    return true;
}

} // namespace outbox::http
