#include "uri.h"

#include "extension/core/characters.h"

namespace outbox::amqp
{

namespace
{

int
hex_digit(char c) noexcept
{
    const char lower = to_lower(c);
    if (is_digit(c))
        return c - '0';
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// Percent-encoding. A zero byte would end names early.
bool
decode(std::string_view text, std::string &decoded)
{
    decoded.clear();
    for (std::size_t i = 0; i < text.size(); i++)
    {
        char c = text[i];
        if (c == '%')
        {
            const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
            const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = static_cast<char>(high * 16 + low);
            i += 2;
        }
        if (c == '\0')
            return false;
        decoded += c;
    }
    return true;
}

const char *
read_port(std::string_view text, int &port) noexcept
{
    constexpr int kMaxPort = 65535;
    constexpr std::size_t kMaxDigits = 5;
    port = 0;
    if (text.empty() || text.size() > kMaxDigits)
        return "has no port behind the colon";
    for (const char c : text)
    {
        if (!is_digit(c))
            return "has a port that is not a number";
        port = port * 10 + (c - '0');
    }
    return port >= 1 && port <= kMaxPort ? nullptr : "has a port that is not from 1 to 65535";
}

const char *
read_host(std::string_view text, Uri &uri)
{
    std::string_view host = text;
    std::string_view rest;
    if (!text.empty() && text.front() == '[') // IPv6
    {
        const std::size_t end = text.find(']');
        if (end == std::string_view::npos)
            return "has a bracket that does not end";
        host = text.substr(1, end - 1);
        rest = text.substr(end + 1);
    }
    else if (const std::size_t colon = text.find(':'); colon != std::string_view::npos)
    {
        host = text.substr(0, colon);
        rest = text.substr(colon);
    }
    if (host.empty())
        return "names no host";
    if (!decode(host, uri.host))
        return "has a % that two digits do not follow";
    if (rest.empty())
        return nullptr;
    return rest.front() == ':' ? read_port(rest.substr(1), uri.port)
                               : "has something behind its host";
}

const char *
read_user(std::string_view text, Uri &uri)
{
    const std::size_t colon = text.find(':');
    if (!decode(text.substr(0, colon), uri.username))
        return "has a % that two digits do not follow";
    uri.password.clear();
    if (colon != std::string_view::npos && !decode(text.substr(colon + 1), uri.password))
        return "has a % that two digits do not follow";
    return nullptr;
}

} // namespace

const char *
read_uri(std::string_view text, Uri &uri)
{
    constexpr std::string_view kPlain = "amqp://";
    constexpr std::string_view kTls = "amqps://";
    uri = Uri();
    uri.tls = text.substr(0, kTls.size()) == kTls;
    if (!uri.tls && text.substr(0, kPlain.size()) != kPlain)
        return "begins neither with amqp:// nor with amqps://";
    text.remove_prefix(uri.tls ? kTls.size() : kPlain.size());
    if (text.find_first_of("?#") != std::string_view::npos)
        return "has parameters, which have to be options instead";
    const std::size_t slash = text.find('/');
    if (slash != std::string_view::npos)
    {
        const std::string_view vhost = text.substr(slash + 1);
        if (vhost.find('/') != std::string_view::npos)
            return "has a slash in its virtual host, which has to be written as %2F";
        // "amqp://host/" names the virtual host of no name, as the specification has it.
        if (!decode(vhost, uri.vhost))
            return "has a % that two digits do not follow";
        text = text.substr(0, slash);
    }
    const std::size_t at = text.rfind('@');
    if (at != std::string_view::npos)
    {
        if (const char *wrong = read_user(text.substr(0, at), uri))
            return wrong;
        text.remove_prefix(at + 1);
    }
    return read_host(text, uri);
}

} // namespace outbox::amqp
