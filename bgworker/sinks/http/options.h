// The options of a subscription to a webhook. Backends check them, so nothing here needs libcurl.
#pragma once

#include "extension/core/sink_kinds.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace outbox::http
{

enum class Format
{
    standard,    // Standard Webhooks: the payload as it is
    cloudevents, // CloudEvents in binary content mode
    cloudevents_structured,
};

extern const SinkKind kSinkKind;

using HeaderLines = std::vector<std::pair<std::string, std::string>>;

struct Options
{
    std::string url;
    Format format = Format::standard;
    std::string secret_file;
    std::string headers_file;
    std::string ca_file;
    std::string cert_file;
    std::string key_file;
    HeaderLines headers;
    std::int64_t timeout_ms = 15000;
    int max_in_flight = 64;
    std::int64_t rate = 0; // requests a second; 0: no limit
};

// The parts of a URL that may be shown: its path may be a secret.
struct Endpoint
{
    bool tls = false;
    std::string host; // as in the URL, without brackets
    int port = 0;
    std::string shown; // scheme://host[:port]
};

// Reads the options. May throw std::bad_alloc.
bool read_options(const SinkOptions &given, Options &options, OptionFault &fault);

// Only http and https, without a user, a password or a fragment.
bool parse_url(const std::string &url, Endpoint &endpoint, OptionFault &fault);

// Whether a header of this name may be set by an operator: those that the sink sets itself, or that
// say how a message is sent, may not.
bool may_set_header(std::string_view name) noexcept;
// Whether a text can be the value of a header: printable ASCII, spaces and tabs inside of it.
bool is_header_value(std::string_view value) noexcept;

} // namespace outbox::http
