// Keys that are encrypted.
#pragma once

#include "extension/core/regular_file.h"

#include <string>
#include <string_view>

namespace outbox
{

constexpr const char *kKeyHasPassphrase =
    "the key is encrypted, and nobody is asked for its passphrase";
constexpr const char *kKeyHasPassphraseHint =
    "Write it without one, as openssl pkey does, readable by the server's user only.";

// Whether a file in PEM has an encrypted key, of PKCS #8 or older. Libraries ask for its passphrase
// at the terminal, if there is one, and wait.
inline bool
has_passphrase(std::string_view pem) noexcept
{
    return pem.find("ENCRYPTED") != std::string_view::npos;
}

// Not when it cannot be read, which whoever reads it says better. May throw std::bad_alloc.
inline bool
file_has_passphrase(const std::string &path)
{
    constexpr std::size_t kMost = std::size_t{1024} * 1024;
    std::string content;
    std::string ignored;
    const File file = open_regular_file(path, ignored);
    return file != nullptr && read_up_to(file, kMost, content) && has_passphrase(content);
}

} // namespace outbox
