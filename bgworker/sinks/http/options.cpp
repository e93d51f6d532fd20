#include "options.h"

#include "extension/core/verdict.h"

#include <algorithm>
#include <arpa/inet.h>

namespace outbox::http
{

namespace
{

constexpr std::size_t kLongestUrl = 2048;
constexpr std::size_t kLongestHeader = 4096;
constexpr std::size_t kMostHeaders = 32;
constexpr std::size_t kLongestPath = 1024;
constexpr std::int64_t kLongestTimeoutMs = std::int64_t{10} * 60 * 1000;
constexpr std::int64_t kMostRequests = 256;
constexpr std::int64_t kHighestRate = 1000000;

constexpr const char *kHeadersHint =
    "What is secret belongs in the file of \"headers_file\", which "
    "holds one \"name: value\" a line.";

bool
fail(OptionFault &fault, std::string message, std::string detail = {}, std::string hint = {})
{
    fault = {std::move(message), std::move(detail), std::move(hint)};
    return false;
}

std::string
quoted(std::string_view text)
{
    return '"' + std::string(clip(text, 100)) + '"';
}

std::string
lower(std::string_view text)
{
    std::string result(text);
    for (char &c : result)
        if (c >= 'A' && c <= 'Z')
            c = static_cast<char>(c - 'A' + 'a');
    return result;
}

// Decimal digits only; -1: none, or too many.
std::int64_t
whole_number(std::string_view text) noexcept
{
    if (text.empty() || text.size() > 12)
        return -1;
    std::int64_t number = 0;
    for (const char digit : text)
    {
        if (digit < '0' || digit > '9')
            return -1;
        number = number * 10 + (digit - '0');
    }
    return number;
}

bool
read_path(const SinkOptions &given, const char *name, std::string &to, OptionFault &fault)
{
    if (!read_text(given, name, to, fault))
        return false;
    if (given.has(name) && (to.empty() || to.size() > kLongestPath))
        return fail(fault, "option " + quoted(name) + " is no path of a file");
    return true;
}

bool
read_format(const SinkOptions &given, Format &to, OptionFault &fault)
{
    constexpr const char *kNames[] = {"standard", "cloudevents", "cloudevents-structured"};
    std::string name = kNames[0];
    if (!read_choice(given, "format", {kNames[0], kNames[1], kNames[2]}, name, fault))
        return false;
    to = name == kNames[0]   ? Format::standard
         : name == kNames[1] ? Format::cloudevents
                             : Format::cloudevents_structured;
    return true;
}

bool
is_token(std::string_view name) noexcept
{
    constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
    return !name.empty() && std::all_of(name.begin(), name.end(),
                                        [&](char c)
                                        {
                                            return (c >= 'a' && c <= 'z') ||
                                                   (c >= 'A' && c <= 'Z') ||
                                                   (c >= '0' && c <= '9') ||
                                                   kMarks.find(c) != std::string_view::npos;
                                        });
}

bool
is_secret_header(std::string_view name)
{
    constexpr std::string_view kMarks[] = {"authorization", "cookie",  "token",      "secret",
                                           "password",      "passwd",  "credential", "apikey",
                                           "accesskey",     "authkey", "privatekey"};
    // However the words of a name are joined.
    std::string known = lower(name);
    known.erase(std::remove_if(known.begin(), known.end(),
                               [](char c) { return c == '-' || c == '_' || c == '.'; }),
                known.end());
    return known == "auth" || known == "xauth" ||
           std::any_of(std::begin(kMarks), std::end(kMarks),
                       [&](std::string_view mark)
                       { return known.find(mark) != std::string::npos; });
}

bool
read_headers(const SinkOptions &given, HeaderLines &to, OptionFault &fault)
{
    if (!read_members(given, "headers", to, fault))
        return false;
    if (to.size() > kMostHeaders)
        return fail(fault, "option \"headers\" has more than 32 members");
    for (const auto &[name, value] : to)
    {
        if (!may_set_header(name))
            return fail(fault, "option \"headers\" must not set " + quoted(name),
                        "It is no name of a header, or one that the relay sets itself.");
        if (is_secret_header(name))
            return fail(fault, "option \"headers\" must not set " + quoted(name),
                        "Whoever may read outbox.subscriptions would see it.", kHeadersHint);
        if (value.size() > kLongestHeader || !is_header_value(value))
            return fail(fault, "header " + quoted(name) +
                                   " of option \"headers\" is not printable ASCII of at most "
                                   "4096 bytes");
    }
    return true;
}

// Everything but how the options fit together.
bool
read_each(const SinkOptions &given, Options &options, OptionFault &fault)
{
    std::int64_t requests = options.max_in_flight;
    const bool ok =
        read_text(given, "url", options.url, fault) && read_format(given, options.format, fault) &&
        read_path(given, "secret_file", options.secret_file, fault) &&
        read_path(given, "headers_file", options.headers_file, fault) &&
        read_path(given, "ca_file", options.ca_file, fault) &&
        read_path(given, "cert_file", options.cert_file, fault) &&
        read_path(given, "key_file", options.key_file, fault) &&
        read_headers(given, options.headers, fault) &&
        read_duration(given, "timeout", 100, kLongestTimeoutMs, options.timeout_ms, fault) &&
        read_integer(given, "max_in_flight", 1, kMostRequests, requests, fault) &&
        read_integer(given, "rate", 0, kHighestRate, options.rate, fault);
    options.max_in_flight = static_cast<int>(requests);
    return ok;
}

constexpr const char *kUrlHint = "For example \"https://billing.example.com/events\".";

bool
bad_url(OptionFault &fault, const char *why, const char *hint = kUrlHint)
{
    return fail(fault, std::string("option \"url\" ") + why, {}, hint);
}

bool
is_host(std::string_view host) noexcept
{
    return !host.empty() && host.size() <= 253 && host.front() != '-' && host.front() != '.' &&
           host.find("..") == std::string_view::npos &&
           std::all_of(host.begin(), host.end(),
                       [](char c)
                       {
                           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                  (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
                       });
}

bool
is_ipv6(std::string_view host)
{
    in6_addr address;
    return inet_pton(AF_INET6, std::string(host).c_str(), &address) == 1;
}

// Takes the host off the authority; what is left is empty, or the port with its colon.
bool
split_host(std::string_view &authority, Endpoint &endpoint, OptionFault &fault)
{
    std::string_view host;
    if (!authority.empty() && authority.front() == '[')
    {
        const std::size_t end = authority.find(']');
        if (end == std::string_view::npos || !is_ipv6(authority.substr(1, end - 1)))
            return bad_url(fault, "has no valid IPv6 address in its brackets");
        host = authority.substr(1, end - 1);
        authority.remove_prefix(end + 1);
    }
    else
    {
        host = authority.substr(0, authority.find(':'));
        if (!is_host(host))
            return bad_url(fault, "has no valid host",
                           "A name that is not ASCII is written in its xn-- form.");
        authority.remove_prefix(host.size());
    }
    endpoint.host = lower(host);
    return true;
}

} // namespace

bool
may_set_header(std::string_view name) noexcept
{
    constexpr std::string_view kReserved[] = {"host",
                                              "content-length",
                                              "content-type",
                                              "content-encoding",
                                              "transfer-encoding",
                                              "te",
                                              "trailer",
                                              "connection",
                                              "keep-alive",
                                              "upgrade",
                                              "expect",
                                              "proxy-authorization",
                                              "user-agent",
                                              "proxy-connection",
                                              "http2-settings",
                                              "range",
                                              "forwarded",
                                              "accept-encoding"};
    constexpr std::string_view kPrefixes[] = {"webhook-", "ce-", "outbox-"};
    if (!is_token(name) || name.size() > 128)
        return false;
    const auto same = [&](std::string_view known)
    {
        return name.size() >= known.size() &&
               std::equal(known.begin(), known.end(), name.begin(),
                          [](char a, char b)
                          { return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b + 32) : b); });
    };
    return std::none_of(std::begin(kReserved), std::end(kReserved),
                        [&](std::string_view known)
                        { return name.size() == known.size() && same(known); }) &&
           std::none_of(std::begin(kPrefixes), std::end(kPrefixes), same);
}

bool
is_header_value(std::string_view value) noexcept
{
    const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
    return !value.empty() && !is_space(value.front()) && !is_space(value.back()) &&
           std::all_of(value.begin(), value.end(),
                       [](char c) { return (c >= ' ' && c <= '~') || c == '\t'; });
}

bool
parse_url(const std::string &url, Endpoint &endpoint, OptionFault &fault)
{
    std::string_view rest = url;
    if (url.size() > kLongestUrl)
        return bad_url(fault, "is too long");
    if (std::any_of(url.begin(), url.end(),
                    [](char c) { return c <= ' ' || c > '~' || c == '\\'; }))
        return bad_url(fault, "has a character that must be percent-encoded");
    const std::string scheme = lower(rest.substr(0, std::min<std::size_t>(rest.find("://"), 8)));
    if (scheme != "https" && scheme != "http")
        return bad_url(fault, "must begin with https:// or http://");
    rest.remove_prefix(scheme.size() + 3);
    if (rest.find('#') != std::string_view::npos)
        return bad_url(fault, "has a fragment, which is never sent");
    std::string_view authority = rest.substr(0, rest.find_first_of("/?"));
    if (authority.find('@') != std::string_view::npos)
        return bad_url(fault, "has a user or a password", kHeadersHint);
    endpoint.tls = scheme == "https";
    endpoint.port = endpoint.tls ? 443 : 80;
    const std::string shown(authority);
    if (!split_host(authority, endpoint, fault))
        return false;
    if (!authority.empty())
    {
        const std::int64_t port = authority.front() == ':' ? whole_number(authority.substr(1)) : -1;
        if (port < 1 || port > 65535)
            return bad_url(fault, "has no valid port");
        endpoint.port = static_cast<int>(port);
    }
    endpoint.shown = scheme + "://" + shown;
    return true;
}

bool
read_options(const SinkOptions &given, Options &options, OptionFault &fault)
{
    options = Options();
    if (!read_each(given, options, fault))
        return false;
    if (options.url.empty())
        return fail(fault, "options must have \"url\"", {},
                    "For example {\"url\": \"https://billing.example.com/events\", "
                    "\"secret_file\": \"/etc/outbox/billing.secret\"}.");
    Endpoint endpoint;
    if (!parse_url(options.url, endpoint, fault))
        return false;
    if (options.format == Format::standard && options.secret_file.empty())
        return fail(fault, "options must have \"secret_file\"",
                    "The format \"standard\" signs each request.",
                    "It is a file with whsec_ and 24 to 64 random bytes in base64.");
    if (options.cert_file.empty() != options.key_file.empty())
        return fail(fault, "options \"cert_file\" and \"key_file\" belong together");
    const bool has_tls_file = !options.ca_file.empty() || !options.cert_file.empty();
    if (has_tls_file && !endpoint.tls)
        return fail(fault, "options \"ca_file\" and \"cert_file\" need a url with https://");
    return true;
}

namespace
{

constexpr const char *kNames[] = {"url",          "format",    "secret_file",   "headers",
                                  "headers_file", "timeout",   "max_in_flight", "rate",
                                  "ca_file",      "cert_file", "key_file",      nullptr};
// What waits for its turn is in memory, each event with a kilobyte of its own.
constexpr const char *kDefaults[] = {"max_in_flight_size", "8MB", "headers_format", "cloudevents",
                                     nullptr};
constexpr const char *kPolicies[] = {"webhook_deny_networks", nullptr};

bool
check(const SinkOptions &given, OptionFault &fault)
{
    Options options;
    return read_options(given, options, fault);
}

} // namespace

const SinkKind kSinkKind = {"webhook", "webhook", "outbox_http", kSinksPackage, kNames,
                            check,     kNoNames,  nullptr,       kDefaults,     kPolicies};

namespace
{

const RegisteredSink registered(kSinkKind);

} // namespace

} // namespace outbox::http
