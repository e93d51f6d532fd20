// Signatures of Standard Webhooks.
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
#pragma once

#include "extension/core/verdict.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct evp_mac_ctx_st;

namespace outbox::http
{

// One secret, or two while they rotate; without one nothing is signed.
using SigningKeys = std::vector<std::string>;

// Reads the content of a file of secrets: one or two lines, `whsec_` and the secret in base64. The
// reason never quotes a line. May throw std::bad_alloc.
Verdict parse_secrets(std::string_view content, SigningKeys &keys);

// Looks its algorithms up once: that takes longer than to sign.
class Signer
{
public:
    explicit Signer(const SigningKeys &keys) : keys_(keys) {}

    // Appends the value of webhook-signature: `v1,` and the HMAC-SHA256 of "id.timestamp.body" in
    // base64, for each of the keys, separated by spaces. False: the library has refused. May throw
    // std::bad_alloc.
    bool append(std::string_view id, std::string_view timestamp, std::string_view body,
                std::string &signature);

private:
    struct Free
    {
        void operator()(evp_mac_ctx_st *context) const noexcept;
    };

    const SigningKeys &keys_;
    std::unique_ptr<evp_mac_ctx_st, Free> context_;
};

std::string to_base64(std::string_view bytes);
// Returns false for what is no base64; padding may be left out.
bool from_base64(std::string_view text, std::string &bytes);

} // namespace outbox::http
