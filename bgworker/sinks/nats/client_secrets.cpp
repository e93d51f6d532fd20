// What a client says of who it is.
#include "client.h"

#include "bgworker/sinks/passphrase.h"
#include "extension/core/regular_file.h"

#include <nats/nats.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace outbox::nats
{

namespace
{

constexpr std::size_t kMostCredentials = std::size_t{64} * 1024;

void
set_text(Failure &why, const char *name, const char *hint, const std::string &text) noexcept
{
    set_failure(why, FailureClass::retriable, name, "%s", text.c_str());
    set_hint(why, hint);
}

// Whole: libnats reads all there is of it, for ever if it is a device.
bool
read_file(const std::string &path, std::size_t most, std::string &content, Failure &why)
{
    constexpr const char *kHint = "The server's user must be able to read the file.";
    std::string reason;
    content.clear();
    const File file = open_regular_file(path, reason);
    if (file != nullptr && !read_up_to(file, most, content))
        reason = std::strerror(errno);
    else if (content.size() > most)
        reason = "it is too large";
    if (!reason.empty())
        set_text(why, "FILE", kHint, "\"" + path + "\": " + reason);
    return reason.empty();
}

// Of a file of credentials all lines but the dashed ones may be secret.
void
add_lines(const std::string &content, Secrets &secrets)
{
    constexpr std::size_t kShortest = 20; // of the JWT and the seed; others are prose
    for (std::size_t at = 0; at < content.size();)
    {
        const std::size_t end = std::min(content.find_first_of(" \t\r\n", at), content.size());
        const std::string_view word = std::string_view(content).substr(at, end - at);
        if (word.size() >= kShortest && word.find_first_not_of('-') != std::string_view::npos)
            secrets.add(word);
        at = end + 1;
    }
}

// The first line, without what ends it.
bool
read_secret(const std::string &path, std::string &secret, Failure &why)
{
    constexpr std::size_t kMaxSecret = 4096;
    std::string reason;
    const File file = open_regular_file(path, reason);
    if (file == nullptr)
    {
        set_text(why, "FILE", "The server's user must be able to read the file.",
                 "\"" + path + "\": " + reason);
        return false;
    }
    char line[kMaxSecret + 2];
    const std::size_t size = std::fread(line, 1, sizeof line, file.get());
    secret.assign(line, size);
    secret.resize(std::min(secret.size(), secret.find_first_of("\r\n")));
    std::memset(line, 0, sizeof line);
    if (has_byte_order_mark(secret))
    {
        set_text(why, "FILE", kHasByteOrderMarkHint, "\"" + path + "\": " + kHasByteOrderMark);
        return false;
    }
    if (!secret.empty() && secret.size() <= kMaxSecret && secret.find('\0') == std::string::npos)
        return true;
    set_text(why, "FILE", "Its first line is the secret.",
             "\"" + path + "\": the first line is empty or longer than 4096 bytes");
    return false;
}

} // namespace

// OpenSSL's words for a file that cannot be read are none, and it asks at the terminal for the
// passphrase of a key.
bool
Client::check_tls_files(Failure &why) const
{
    constexpr std::size_t kMost = std::size_t{1024} * 1024;
    std::string content;
    for (const std::string *path : {&settings_.ca_file, &settings_.cert_file, &settings_.key_file})
        if (!path->empty() && !read_file(*path, kMost, content, why))
            return false;
    if (settings_.key_file.empty() || !has_passphrase(content))
        return true;
    set_text(why, "FILE", kKeyHasPassphraseHint,
             "\"" + settings_.key_file + "\": " + kKeyHasPassphrase);
    return false;
}

bool
Client::set_secrets(void *options, Failure &why)
{
    auto *set = static_cast<natsOptions *>(options);
    std::string secret;
    Secrets read;
    natsStatus status = NATS_OK;
    if (!settings_.password_file.empty())
    {
        if (!read_secret(settings_.password_file, secret, why))
            return false;
        read.add(secret);
        status = natsOptions_SetUserInfo(set, settings_.user.c_str(), secret.c_str());
    }
    else if (!settings_.token_file.empty())
    {
        if (!read_secret(settings_.token_file, secret, why))
            return false;
        read.add(secret);
        status = natsOptions_SetToken(set, secret.c_str());
    }
    else if (!settings_.credentials_file.empty())
    {
        if (!read_file(settings_.credentials_file, kMostCredentials, secret, why))
            return false;
        add_lines(secret, read);
        status = natsOptions_SetUserCredentialsFromFiles(set, settings_.credentials_file.c_str(),
                                                         nullptr);
    }
    keep_secrets(read);
    if (status == NATS_OK)
        return true;
    fail(why, status, nullptr);
    return false;
}

// The server may repeat those of earlier connections as well.
void
Client::keep_secrets(const Secrets &read)
{
    if (read == secrets_)
        return;
    older_secrets_ = std::move(secrets_);
    secrets_ = read;
}

void
Client::mask(char *text, bool was_cut) const noexcept
{
    // So libnats ends a text that it has cut.
    constexpr std::string_view kCut = "...";
    const std::string_view whole(text);
    const bool says_so =
        was_cut && whole.size() >= kCut.size() && whole.substr(whole.size() - kCut.size()) == kCut;
    if (says_so)
        text[whole.size() - kCut.size()] = '\0';
    for (const Secrets *secrets : {&secrets_, &older_secrets_})
        was_cut ? secrets->mask_cut(text) : secrets->mask(text);
    if (says_so)
        text[std::strlen(text) + kCut.copy(text + std::strlen(text), kCut.size())] = '\0';
}

} // namespace outbox::nats
