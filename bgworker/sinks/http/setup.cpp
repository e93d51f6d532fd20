#include "setup.h"

#include "certificates.h"
#include "bgworker/sinks/passphrase.h"
#include "extension/core/regular_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace outbox::http
{

namespace
{

constexpr std::size_t kMostSecrets = std::size_t{64} * 1024;
constexpr std::size_t kMostCertificates = std::size_t{1024} * 1024;
constexpr std::size_t kMostHeaders = 32;

bool
refuse_file(Failure &why, const char *option, const std::string &path, const std::string &problem,
            const char *hint = "It must be a regular file, readable by the server's user.")
{
    set_failure(why, FailureClass::config, "CONFIG", "%s \"%s\": %s", option, path.c_str(),
                problem.c_str());
    set_hint(why, hint);
    return false;
}

std::string
path_of(const std::string &directory, const std::string &name)
{
    return name.front() == '/' ? name : directory + '/' + name;
}

bool
read_file(const char *option, const std::string &directory, const std::string &name,
          std::size_t most, std::string &content, Failure &why)
{
    content.clear();
    if (name.empty())
        return true;
    const std::string path = path_of(directory, name);
    std::string problem;
    const File file = open_regular_file(path, problem);
    if (!file)
        return refuse_file(why, option, path, problem);
    if (!read_up_to(file, most, content))
        return refuse_file(why, option, path, std::strerror(errno));
    if (content.size() > most)
        return refuse_file(why, option, path, "it is too large");
    if (content.empty())
        return refuse_file(why, option, path, "it is empty");
    return true;
}

std::string_view
trim(std::string_view text)
{
    constexpr const char *kSpace = " \t\r";
    const std::size_t first = text.find_first_not_of(kSpace);
    if (first == std::string_view::npos)
        return {};
    return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// One "name: value" a line; empty lines, and those that begin with #, count for nothing.
bool
parse_headers(std::string_view content, Setup &setup, std::string &problem)
{
    std::size_t count = 0;
    for (int number = 1; !content.empty(); number++)
    {
        const std::size_t end = std::min(content.find('\n'), content.size());
        const std::string_view line = trim(content.substr(0, end));
        content.remove_prefix(std::min(end + 1, content.size()));
        if (line.empty() || line.front() == '#')
            continue;
        const std::size_t colon = std::min(line.find(':'), line.size());
        const std::string_view name = line.substr(0, colon);
        const std::string_view value = trim(line.substr(std::min(colon + 1, line.size())));
        if (!may_set_header(name) || !is_header_value(value) || ++count > kMostHeaders)
        {
            problem = "line " + std::to_string(number) + " is no header that may be set";
            return false;
        }
        setup.headers.emplace_back(name, value);
        setup.secrets.add(value);
        // "Bearer token": the token alone is one as well.
        const std::size_t space = value.find_last_of(" \t");
        if (space != std::string_view::npos)
            setup.secrets.add(value.substr(space + 1));
    }
    return true;
}

bool
read_secrets(const std::string &directory, Setup &setup, Failure &why)
{
    const std::string &name = setup.options.secret_file;
    std::string content;
    if (!read_file("secret_file", directory, name, kMostSecrets, content, why))
        return false;
    if (name.empty())
        return true;
    const Verdict verdict = parse_secrets(content, setup.keys);
    if (!verdict.ok)
        return refuse_file(why, "secret_file", name, verdict.reason, verdict.hint);
    for (const std::string &key : setup.keys)
        setup.secrets.add(to_base64(key));
    return true;
}

bool
read_certificates(const std::string &directory, Setup &setup, Failure &why)
{
    const Options &options = setup.options;
    const auto read = [&](const char *option, const std::string &name, std::string &content)
    { return read_file(option, directory, name, kMostCertificates, content, why); };
    const auto refuse =
        [&](const char *option, const std::string &name, const char *fault, const char *hint)
    { return refuse_file(why, option, path_of(directory, name), fault, hint); };
    if (!read("ca_file", options.ca_file, setup.ca) ||
        !read("cert_file", options.cert_file, setup.cert) ||
        !read("key_file", options.key_file, setup.key))
        return false;
    const char *fault = setup.ca.empty() ? nullptr : fault_of_authorities(setup.ca);
    if (fault != nullptr)
        return refuse("ca_file", options.ca_file, fault,
                      "It holds the certificates of authorities, in PEM.");
    if (setup.cert.empty())
        return true;
    fault = fault_of_certificate(setup.cert, setup.valid_until);
    if (fault != nullptr)
        return refuse("cert_file", options.cert_file, fault,
                      "It holds the relay's certificate, and those between it and an authority.");
    fault = fault_of_key(setup.key, setup.cert);
    if (fault != nullptr)
        return refuse("key_file", options.key_file, fault,
                      has_passphrase(setup.key) ? kKeyHasPassphraseHint
                                                : "It holds the key of cert_file, in PEM.");
    return true;
}

} // namespace

bool
Setup::operator==(const Setup &other) const
{
    return options.url == other.options.url && options.format == other.options.format &&
           options.timeout_ms == other.options.timeout_ms &&
           options.max_in_flight == other.options.max_in_flight &&
           options.rate == other.options.rate && keys == other.keys && headers == other.headers &&
           ca == other.ca && cert == other.cert && key == other.key &&
           deny_networks == other.deny_networks && backoff_initial_ms == other.backoff_initial_ms &&
           backoff_max_ms == other.backoff_max_ms && max_records == other.max_records &&
           max_bytes == other.max_bytes;
}

bool
read_files(const std::string &directory, Setup &setup, Failure &why)
{
    const Options &options = setup.options;
    setup.headers = options.headers;
    std::string content;
    std::string problem;
    if (!read_secrets(directory, setup, why) ||
        !read_file("headers_file", directory, options.headers_file, kMostSecrets, content, why))
        return false;
    if (has_byte_order_mark(content))
        return refuse_file(why, "headers_file", options.headers_file, kHasByteOrderMark,
                           kHasByteOrderMarkHint);
    if (!parse_headers(content, setup, problem))
        return refuse_file(why, "headers_file", options.headers_file, problem,
                           "It holds one \"name: value\" a line.");
    const Verdict verdict = setup.denied.parse(setup.deny_networks);
    if (!verdict.ok)
    {
        set_failure(why, FailureClass::config, "CONFIG", "outbox.webhook_deny_networks: %s",
                    verdict.reason);
        return false;
    }
    return read_certificates(directory, setup, why);
}

} // namespace outbox::http
