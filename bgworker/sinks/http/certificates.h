// What files of certificates and keys hold, before libcurl is given it.
#pragma once

#include <cstdint>
#include <string>

namespace outbox::http
{

// Null, or what is wrong with them, all in PEM: authorities; the relay's certificate, which may be
// followed by those between; its key. The key is the certificate's. They put nothing on OpenSSL's
// list of errors, and ask nobody for a passphrase.
const char *fault_of_authorities(const std::string &pem);
// `valid_until` is in seconds since 1970.
const char *fault_of_certificate(const std::string &pem, std::int64_t &valid_until);
const char *fault_of_key(const std::string &pem, const std::string &certificate);

} // namespace outbox::http
