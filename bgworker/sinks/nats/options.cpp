// Compiled into outbox.so as well: it knows no libnats.
#include "options.h"

#include "subject.h"
#include "text.h"

#include <algorithm>
#include <arpa/inet.h>
#include <initializer_list>
#include <utility>

namespace outbox::nats
{

namespace
{

constexpr std::size_t kMaxServers = 32;
constexpr std::int64_t kMinTimeoutMs = 100;
constexpr std::int64_t kMaxTimeoutMs = 600000;

constexpr const char *kOptions[] = {"servers",          "user",    "password_file", "token_file",
                                    "credentials_file", "tls",     "ca_file",       "cert_file",
                                    "key_file",         "subject", "stream",        "inbox_prefix",
                                    "timeout",          nullptr};

// What a connection may have on its way, in bytes: with the streams of redelivery and replays, and
// what libnats adds, the process stays small.
constexpr const char *kDefaults[] = {"max_in_flight_size", "8MB", nullptr};

bool
refuse_option(OptionFault &fault, const char *name, const std::string &what, std::string hint)
{
    fault = {std::string("option \"") + name + "\" " + what, "", std::move(hint)};
    return false;
}

constexpr char kServersHint[] =
    "For example \"nats-a:4222, nats-b:4222\", or with the scheme nats:// or tls://; an address of "
    "IPv6 is in brackets.";

bool
is_port(std::string_view port) noexcept
{
    constexpr std::size_t kMostDigits = 5;
    constexpr long kMost = 65535;
    if (port.empty() || port.size() > kMostDigits ||
        port.find_first_not_of("0123456789") != std::string_view::npos)
        return false;
    const long number = std::stol(std::string(port));
    return number > 0 && number <= kMost;
}

// A name, or an address of the Internet Protocol of version 4.
bool
is_name(std::string_view host) noexcept
{
    constexpr std::size_t kLongest = 253;
    const auto is_taken = [](char c)
    {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '.' || c == '_';
    };
    return !host.empty() && host.size() <= kLongest && host.front() != '-' && host.front() != '.' &&
           host.find("..") == std::string_view::npos &&
           std::all_of(host.begin(), host.end(), is_taken);
}

bool
is_ipv6(std::string_view host)
{
    in6_addr address;
    return inet_pton(AF_INET6, std::string(host).c_str(), &address) == 1;
}

// False when it is no host, or an address in brackets, with or without a colon and a port.
bool
split_address(std::string_view address, std::string_view &host, std::string_view &port) noexcept
{
    std::size_t end = address.find(':');
    if (!address.empty() && address.front() == '[')
    {
        const std::size_t bracket = address.find(']');
        if (bracket == std::string_view::npos)
            return false;
        host = address.substr(1, bracket - 1);
        end = bracket + 1;
    }
    else
        host = address.substr(0, end);
    const std::string_view rest = address.substr(std::min(end, address.size()));
    port = rest.empty() ? "4222" : rest.substr(1);
    return rest.empty() || rest.front() == ':';
}

// `server` is not shown: it may hold a password.
bool
check_server(std::string_view server, OptionFault &fault)
{
    std::string_view address = server;
    if (const std::size_t scheme = address.find("://"); scheme != std::string_view::npos)
    {
        const std::string_view name = address.substr(0, scheme);
        if (name != "nats" && name != "tls")
            return refuse_option(fault, "servers", "has a scheme other than nats:// and tls://",
                                 kServersHint);
        address.remove_prefix(scheme + 3);
    }
    if (address.find('@') != std::string_view::npos)
        return refuse_option(fault, "servers", "must not hold a user, password or token",
                             "Use the options user and password_file, token_file or "
                             "credentials_file: options are shown to all superusers.");
    std::string_view host, port;
    const bool ok = split_address(address, host, port) && is_port(port) &&
                    (address.front() == '[' ? is_ipv6(host) : is_name(host));
    if (!ok)
        return refuse_option(fault, "servers", "is no list of servers", kServersHint);
    return true;
}

bool
read_servers(const SinkOptions &options, Settings &settings, OptionFault &fault)
{
    std::string list;
    if (!read_text(options, "servers", list, fault))
        return false;
    if (list.empty())
    {
        fault = {"options must have \"servers\"", "", kServersHint};
        return false;
    }
    for (std::size_t at = 0; at <= list.size();)
    {
        const std::size_t comma = std::min(list.find(',', at), list.size());
        std::string server = list.substr(at, comma - at);
        server.erase(0, server.find_first_not_of(' '));
        server.erase(server.find_last_not_of(' ') + 1);
        if (!check_server(server, fault))
            return false;
        settings.tls = settings.tls || server.compare(0, 6, "tls://") == 0;
        settings.servers.push_back(server.find("://") == std::string::npos ? "nats://" + server
                                                                           : server);
        at = comma + 1;
    }
    if (settings.servers.size() <= kMaxServers)
        return true;
    return refuse_option(fault, "servers", "has more than 32 servers", "");
}

bool
read_path(const SinkOptions &options, const char *name, std::string &path, OptionFault &fault)
{
    if (!read_text(options, name, path, fault))
        return false;
    if (path.size() < 4096 && path.find('\0') == std::string::npos)
        return true;
    return refuse_option(fault, name, "is no path of a file", "");
}

bool
read_files(const SinkOptions &options, Settings &settings, OptionFault &fault)
{
    return read_path(options, "password_file", settings.password_file, fault) &&
           read_path(options, "token_file", settings.token_file, fault) &&
           read_path(options, "credentials_file", settings.credentials_file, fault) &&
           read_path(options, "ca_file", settings.ca_file, fault) &&
           read_path(options, "cert_file", settings.cert_file, fault) &&
           read_path(options, "key_file", settings.key_file, fault);
}

bool
check_together(const Settings &settings, OptionFault &fault)
{
    if (settings.user.empty() != settings.password_file.empty())
        return refuse_option(fault, settings.user.empty() ? "password_file" : "user",
                             settings.user.empty() ? "needs \"user\"" : "needs \"password_file\"",
                             "The first line of the file is the password.");
    const int ways = (settings.user.empty() ? 0 : 1) + (settings.token_file.empty() ? 0 : 1) +
                     (settings.credentials_file.empty() ? 0 : 1);
    if (ways > 1)
        return refuse_option(fault, "credentials_file",
                             "and \"user\" and \"token_file\" exclude each other",
                             "A connection is authorised in one way.");
    if (settings.cert_file.empty() != settings.key_file.empty())
        return refuse_option(
            fault, settings.cert_file.empty() ? "key_file" : "cert_file",
            settings.cert_file.empty() ? "needs \"cert_file\"" : "needs \"key_file\"", "");
    return true;
}

// A stream's name is part of subjects, and of a header.
bool
check_name(const char *option, const std::string &name, bool dots, OptionFault &fault)
{
    const auto is_taken = [&](char c)
    { return is_for_subject(c) && c != '/' && c != '\\' && c != '$' && (dots || c != '.'); };
    if (name.size() <= 128 && std::all_of(name.begin(), name.end(), is_taken) &&
        (name.empty() || (name.front() != '.' && name.back() != '.')) &&
        name.find("..") == std::string::npos)
        return true;
    return refuse_option(fault, option, "has a character that it cannot have, or too many",
                         dots ? "It is made of tokens with dots between them." : "");
}

bool
read_names(const SinkOptions &options, Settings &settings, OptionFault &fault)
{
    if (!read_text(options, "subject", settings.subject_text, fault) ||
        !read_text(options, "stream", settings.stream, fault) ||
        !read_text(options, "inbox_prefix", settings.inbox_prefix, fault) ||
        !check_name("stream", settings.stream, false, fault) ||
        !check_name("inbox_prefix", settings.inbox_prefix, true, fault))
        return false;
    if (!options.has("subject"))
        settings.subject_text = "{topic}";
    const Verdict verdict = settings.subject.compile(settings.subject_text);
    if (verdict.ok)
        return true;
    return refuse_option(fault, "subject", verdict.reason, verdict.hint);
}

bool
check(const SinkOptions &options, OptionFault &fault)
{
    Settings settings;
    return read_options(options, settings, fault);
}

} // namespace

bool
read_options(const SinkOptions &options, Settings &settings, OptionFault &fault)
{
    bool tls = false;
    if (!read_boolean(options, "tls", tls, fault) || !read_servers(options, settings, fault) ||
        !read_text(options, "user", settings.user, fault) ||
        !read_files(options, settings, fault) || !check_together(settings, fault) ||
        !read_names(options, settings, fault) ||
        !read_duration(options, "timeout", kMinTimeoutMs, kMaxTimeoutMs, settings.timeout_ms,
                       fault))
        return false;
    settings.tls = settings.tls || tls || !settings.ca_file.empty() || !settings.cert_file.empty();
    return true;
}

const SinkKind kSinkKind = {"nats", "NATS",   "outbox_nats", kSinksPackage, kOptions,
                            check,  kNoNames, nullptr,       kDefaults};

namespace
{

const RegisteredSink registered(kSinkKind);

} // namespace

} // namespace outbox::nats
