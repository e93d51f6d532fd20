#include "options.h"

namespace outbox::amqp
{

namespace
{

constexpr const char *kOptions[] = {
    "uri_file",        "host",        "port",      "vhost",           "username",
    "password_file",   "tls",         "ca_file",   "cert_file",       "key_file",
    "exchange",        "mandatory",   "heartbeat", "connect_timeout", "confirm_timeout",
    "max_unconfirmed", "routing_key", nullptr};
constexpr const char *kDefaults[] = {"max_in_flight_size", "8MB", nullptr};
constexpr const char *kExample =
    "For example {\"host\": \"rabbit-1\", \"exchange\": \"events\", \"username\": \"outbox\", "
    "\"password_file\": \"/etc/outbox/rabbit.password\"}.";
constexpr std::size_t kMaxName = 255; // AMQP's
constexpr std::int64_t kSecond = 1000;
constexpr std::int64_t kHour = 3600 * kSecond;

bool
refuse(OptionFault &fault, std::string message, std::string hint = "")
{
    fault = {std::move(message), "", std::move(hint)};
    return false;
}

bool
is_for_routing_key(char c) noexcept
{
    return static_cast<unsigned char>(c) >= ' ' && c != '\x7f';
}

constexpr EventTemplateRule kRoutingKeyRule = {
    is_for_routing_key, "contains a control character",
    "{topic}, {aggregate_type}, {event_type} and {key} stand for those of the event.", kMaxName};

bool
read_routing_key(const SinkOptions &given, Options &options, OptionFault &fault)
{
    if (!read_text(given, "routing_key", options.routing_key_text, fault))
        return false;
    const Verdict verdict = compile_routing_key(options.routing_key_text, options.routing_key);
    return verdict.ok ||
           refuse(fault, std::string("option \"routing_key\" ") + verdict.reason, verdict.hint);
}

bool
read_texts(const SinkOptions &given, Options &options, OptionFault &fault)
{
    const std::pair<const char *, std::string *> texts[] = {
        {"uri_file", &options.uri_file},   {"host", &options.host},
        {"vhost", &options.vhost},         {"username", &options.username},
        {"ca_file", &options.ca_file},     {"password_file", &options.password_file},
        {"cert_file", &options.cert_file}, {"key_file", &options.key_file},
        {"exchange", &options.exchange}};
    for (const auto &[name, text] : texts)
    {
        if (!read_text(given, name, *text, fault))
            return false;
        if (text->find('\0') != std::string::npos)
            return refuse(fault, "option \"" + std::string(name) + "\" has a zero byte");
    }
    for (const std::string_view name : {"vhost", "username", "exchange"})
        if (given.text(name).size() > kMaxName)
            return refuse(fault, "option \"" + std::string(name) + "\" is longer than 255 bytes");
    return true;
}

// Where the server is is said in one way.
bool
check_address(const SinkOptions &given, const Options &options, OptionFault &fault)
{
    if (options.uri_file.empty() == options.host.empty())
        return refuse(fault, "options must have either \"host\" or \"uri_file\"", kExample);
    // It would be shown as what cannot be opened or found.
    for (const std::string &text : {options.uri_file, options.host})
        if (text.find("://") != std::string::npos || text.find('@') != std::string::npos)
            return refuse(fault, "options \"uri_file\" and \"host\" must not hold a URI",
                          "Write it into a file that only the server's user can read, and name "
                          "that in \"uri_file\".");
    if (options.uri_file.empty())
        return true;
    for (const char *name : {"port", "vhost", "username", "password_file", "tls"})
        if (given.has(name))
            return refuse(fault,
                          "option \"" + std::string(name) + "\" does not go with \"uri_file\"",
                          "The URI says it: amqp://user:password@host:port/vhost, or amqps:// "
                          "for TLS.");
    return true;
}

bool
check_user(const SinkOptions &given, const Options &options, OptionFault &fault)
{
    if (options.uri_file.empty() && given.has("username") && options.password_file.empty())
        return refuse(fault, "option \"username\" needs \"password_file\"",
                      "Passwords are read from files only.");
    return true;
}

bool
check_tls(const Options &options, OptionFault &fault)
{
    if (options.cert_file.empty() != options.key_file.empty())
        return refuse(fault, "options \"cert_file\" and \"key_file\" go together");
    const bool any = !options.ca_file.empty() || !options.cert_file.empty();
    if (any && options.uri_file.empty() && !options.tls)
        return refuse(fault, "certificates are of no use without \"tls\"", "Add \"tls\": true.");
    return true;
}

bool
check(const SinkOptions &given, OptionFault &fault)
{
    Options options;
    return read_options(given, options, fault);
}

} // namespace

Verdict
compile_routing_key(std::string_view text, EventTemplate &made)
{
    return made.compile(text, kRoutingKeyRule);
}

bool
read_options(const SinkOptions &given, Options &options, OptionFault &fault)
{
    constexpr std::int64_t kMaxPort = 65535;
    constexpr std::int64_t kMaxUnconfirmed = 65535;
    if (!read_texts(given, options, fault) || !read_routing_key(given, options, fault) ||
        !read_integer(given, "port", 1, kMaxPort, options.port, fault) ||
        !read_boolean(given, "tls", options.tls, fault) ||
        !read_boolean(given, "mandatory", options.mandatory, fault) ||
        !read_duration(given, "heartbeat", kSecond, kHour, options.heartbeat_ms, fault) ||
        !read_duration(given, "connect_timeout", 100, kHour, options.connect_timeout_ms, fault) ||
        !read_duration(given, "confirm_timeout", kSecond, kHour, options.confirm_timeout_ms,
                       fault) ||
        !read_integer(given, "max_unconfirmed", 1, kMaxUnconfirmed, options.max_unconfirmed, fault))
        return false;
    if (!given.has("exchange"))
        return refuse(fault, "options must have \"exchange\"", kExample);
    return check_address(given, options, fault) && check_user(given, options, fault) &&
           check_tls(options, fault);
}

const SinkKind kSinkKind = {"rabbitmq", "RabbitMQ", "outbox_amqp", kSinksPackage, kOptions,
                            check,      kNoNames,   nullptr,       kDefaults};

namespace
{

const RegisteredSink registered(kSinkKind);

} // namespace

} // namespace outbox::amqp
