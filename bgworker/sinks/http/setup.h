// What requests are made from: the options, and the contents of the files that they name.
#pragma once

#include "bgworker/engine/failure.h"

#include "extension/core/networks.h"

#include "options.h"
#include "extension/core/secrets.h"
#include "signature.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace outbox::http
{

struct Setup
{
    Options options;
    Endpoint endpoint;
    SigningKeys keys;
    HeaderLines headers; // of the options, then of the file
    std::string ca;      // in PEM; empty: the system's authorities
    std::string cert;
    std::string key;
    std::int64_t valid_until = 0; // `cert`, in seconds since 1970
    std::string deny_networks;
    Networks denied;
    std::int64_t backoff_initial_ms = 500;
    std::int64_t backoff_max_ms = 60000;
    std::size_t max_records = 0;
    std::size_t max_bytes = 0;
    std::string user_agent = "outbox";
    Secrets secrets;

    bool operator==(const Setup &other) const;
};

// Fills a setup whose options are read: `directory` is where relative paths start. False: `why`
// says what is wrong, with the class config, and shows no content of a file. Waits for the file
// system only. May throw std::bad_alloc.
bool read_files(const std::string &directory, Setup &setup, Failure &why);

} // namespace outbox::http
