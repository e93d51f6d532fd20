// What a connection to NATS is made with.
#pragma once

#include "subject.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace outbox::nats
{

struct Settings
{
    std::vector<std::string> servers; // URLs without user and password
    std::string client_id;
    std::string user;
    // Files are read anew for each connection, so what is in them can be changed. Absolute paths,
    // or empty.
    std::string password_file;
    std::string token_file;
    std::string credentials_file;
    std::string ca_file;
    std::string cert_file;
    std::string key_file;
    bool tls = false;
    SubjectTemplate subject;
    std::string subject_text;
    std::string stream;
    std::string inbox_prefix;
    std::int64_t timeout_ms = 5000;
    std::int64_t backoff_initial_ms = 500;
    std::int64_t backoff_max_ms = 60000;
    std::size_t max_records = 10000;
    std::size_t max_bytes = std::size_t{16} << 20;
};

} // namespace outbox::nats
