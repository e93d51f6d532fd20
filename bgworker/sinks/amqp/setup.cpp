#include "setup.h"

#include "uri.h"

#include "bgworker/sinks/passphrase.h"
#include "extension/core/regular_file.h"

#include <cstdio>

namespace outbox::amqp
{

namespace
{

// Of Debian and what comes from it.
constexpr const char *kSystemAuthorities = "/etc/ssl/certs/ca-certificates.crt";

bool
refuse(Failure &why, const char *hint, const std::string &text)
{
    set_failure(why, FailureClass::config, "CONFIG", "%s", text.c_str());
    set_hint(why, hint);
    return false;
}

std::string
path_of(const std::string &directory, const std::string &name)
{
    return name.empty() || name.front() == '/' ? name : directory + "/" + name;
}

// The first line, which has to be the only one.
bool
read_line(const std::string &path, const char *option, std::string &line, Failure &why)
{
    constexpr std::size_t kMost = 4096;
    std::string reason;
    const File file = open_regular_file(path, reason);
    if (!file)
        return refuse(why, "The server's user has to be able to read it.",
                      std::string(option) + ": cannot open \"" + path + "\": " + reason);
    std::string text(kMost + 1, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file.get()));
    if (std::ferror(file.get()) != 0)
        return refuse(why, "", std::string(option) + ": cannot read \"" + path + "\"");
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r'))
        text.pop_back();
    if (text.empty() || text.size() > kMost ||
        text.find_first_of(std::string_view("\n\r\0", 3)) != std::string::npos)
        return refuse(why, "",
                      std::string(option) + ": \"" + path + "\" must hold one line of text");
    if (has_byte_order_mark(text))
        return refuse(why, kHasByteOrderMarkHint,
                      std::string(option) + ": \"" + path + "\": " + kHasByteOrderMark);
    line = text;
    return true;
}

bool
read_address(const Options &options, const std::string &directory, Settings &settings, Failure &why)
{
    std::string line;
    if (options.uri_file.empty())
    {
        settings.host = options.host;
        settings.port = static_cast<int>(options.port);
        settings.vhost = options.vhost;
        settings.username = options.username;
        settings.password = "guest"; // RabbitMQ's user guest has it, for connections of its machine
        settings.tls.on = options.tls;
        settings.password_path = path_of(directory, options.password_file);
        return settings.password_path.empty() ||
               read_line(settings.password_path, "password_file", settings.password, why);
    }
    const std::string path = path_of(directory, options.uri_file);
    settings.password_path = path;
    settings.password_uri = true;
    if (!read_line(path, "uri_file", line, why))
        return false;
    Uri uri;
    if (const char *wrong = read_uri(line, uri))
        return refuse(why, "It is like amqp://user:password@host:port/vhost.",
                      "uri_file: the URI in \"" + path + "\" " + wrong);
    settings.host = uri.host;
    settings.port = uri.port;
    settings.vhost = uri.vhost;
    settings.username = uri.username;
    settings.password = uri.password;
    settings.tls.on = uri.tls;
    return true;
}

// What the library would say of it is no more than that something went wrong.
bool
check_readable(const std::string &path, const char *option, Failure &why)
{
    std::string reason;
    if (path.empty() || open_regular_file(path, reason))
        return true;
    return refuse(why, "The server's user has to be able to read it.",
                  std::string(option) + ": cannot open \"" + path + "\": " + reason);
}

bool
check_key(const Tls &tls, Failure &why)
{
    if (tls.key_file.empty() || !file_has_passphrase(tls.key_file))
        return true;
    return refuse(why, kKeyHasPassphraseHint,
                  "key_file: \"" + tls.key_file + "\": " + kKeyHasPassphrase);
}

} // namespace

void
read_password_again(Settings &settings)
{
    std::string line;
    Failure why;
    if (settings.password_path.empty() || !read_line(settings.password_path, "", line, why))
        return;
    Uri uri;
    if (!settings.password_uri)
        settings.password = line;
    else if (read_uri(line, uri) == nullptr && uri.username == settings.username)
        settings.password = uri.password;
}

bool
read_settings(const SinkSettings &given, Settings &settings, Failure &why)
{
    constexpr std::int64_t kSecond = 1000;
    Options options;
    OptionFault fault;
    if (!read_options(given.options, options, fault))
        return refuse(why, fault.hint.c_str(), fault.message);
    if (!read_address(options, given.directory, settings, why))
        return false;
    Tls &tls = settings.tls;
    tls.ca_file =
        options.ca_file.empty() ? kSystemAuthorities : path_of(given.directory, options.ca_file);
    tls.cert_file = path_of(given.directory, options.cert_file);
    tls.key_file = path_of(given.directory, options.key_file);
    if (tls.on && (!check_readable(tls.ca_file, "ca_file", why) ||
                   !check_readable(tls.cert_file, "cert_file", why) ||
                   !check_readable(tls.key_file, "key_file", why) || !check_key(tls, why)))
        return false;
    settings.name = given.client_id + " " + given.subscription;
    settings.exchange = options.exchange;
    settings.routing_key = options.routing_key;
    settings.routing_key_text = options.routing_key_text;
    settings.mandatory = options.mandatory;
    settings.heartbeat_s = static_cast<int>((options.heartbeat_ms + kSecond - 1) / kSecond);
    settings.connect_timeout_ms = static_cast<int>(options.connect_timeout_ms);
    settings.confirm_timeout_ms = static_cast<int>(options.confirm_timeout_ms);
    settings.window = static_cast<std::size_t>(options.max_unconfirmed);
    settings.backoff_initial_ms = static_cast<int>(given.backoff_initial_ms);
    settings.backoff_max_ms = static_cast<int>(given.backoff_max_ms);
    settings.max_messages = given.max_records;
    settings.max_bytes = given.max_bytes;
    return true;
}

} // namespace outbox::amqp
