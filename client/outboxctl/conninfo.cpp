#include "conninfo.h"

#include "errors.h"

#include "extension/core/kafka_properties.h"

#include <libpq-fe.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace outbox::ctl
{

namespace
{

constexpr const char *kHint =
    "It is not shown, as there may be a password in it. A value with blanks stands in quotes, "
    "password='two words'; in a URI special characters are written as %XX, a blank as %20.";

using Options = std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)>;

[[noreturn]] void
refuse(const std::string &why)
{
    throw Error(kUsage, "the connection string cannot be used: " + why, kHint);
}

bool
is_uri(const std::string &conninfo)
{
    return conninfo.rfind("postgresql://", 0) == 0 || conninfo.rfind("postgres://", 0) == 0;
}

// user:password@host
bool
looks_like_uri_without_scheme(const std::string &text)
{
    const std::size_t colon = text.find(':');
    return colon != std::string::npos && text.find('@', colon) != std::string::npos;
}

// libpq's words up to what they quote. Without a locale of its own, it speaks English.
std::string
without_quotes(const std::string &message)
{
    if (message.rfind("missing \"=\"", 0) == 0)
        return "after a word the \"=\" is missing";
    for (const char *newer : {"load_balance_hosts", "require_auth", "sslcertmode", "gssdelegation",
                              "sslnegotiation", "min_protocol_version", "max_protocol_version"})
        if (message.find("invalid connection option \"" + std::string(newer) + "\"") == 0 ||
            message.find("invalid URI query parameter: \"" + std::string(newer) + "\"") == 0)
            return std::string("this libpq is too old for ") + newer;
    std::string text = message.substr(0, message.find('"'));
    while (!text.empty() && std::strchr(" :(\n", text.back()) != nullptr)
        text.pop_back();
    return text;
}

// Without %XX, a password with one of these characters ends too early, and its rest becomes a host
// or a port, which libpq's messages name.
void
check_uri(const std::string &uri)
{
    const std::size_t begin = uri.find("://") + 3;
    const std::string place = uri.substr(begin, uri.find('?', begin) - begin);
    const std::size_t authority = std::min(place.find('/'), place.size());
    const std::size_t first = place.find('@');
    if (first != std::string::npos &&
        (first > authority || place.find('@', first + 1) <= place.size()))
        refuse("\"@\", \"/\" and \"?\" in a user's name or password have to be written as %40, %2F "
               "and %3F");
}

void
check_ports(const PQconninfoOption *options)
{
    for (const PQconninfoOption *option = options; option->keyword != nullptr; option++)
        if (std::strcmp(option->keyword, "port") == 0 && option->val != nullptr &&
            std::strspn(option->val, "0123456789,") != std::strlen(option->val))
            refuse("the port is not a number");
}

Options
parsed(const std::string &conninfo, std::string *why)
{
    char *message = nullptr;
    Options options(PQconninfoParse(conninfo.c_str(), &message), &PQconninfoFree);
    if (!options && why != nullptr)
        *why = message == nullptr ? "out of memory" : without_quotes(message);
    PQfreemem(message);
    return options;
}

void
hide(char *text)
{
    std::memset(text, '*', std::strlen(text));
}

bool
may_hold_password(const std::string &argument)
{
    return argument.find('=') != std::string::npos || argument.find(":/") != std::string::npos ||
           looks_like_uri_without_scheme(argument);
}

} // namespace

bool
is_connection_string(const std::string &conninfo)
{
    return is_uri(conninfo) || conninfo.find('=') != std::string::npos;
}

void
check_conninfo(const std::string &conninfo)
{
    if (!is_connection_string(conninfo))
    {
        if (conninfo.find(":/") != std::string::npos || looks_like_uri_without_scheme(conninfo))
            refuse("a URI begins with postgresql:// or postgres://");
        return; // a name
    }
    if (is_uri(conninfo))
        check_uri(conninfo);
    std::string why;
    const Options options = parsed(conninfo, &why);
    if (!options)
        refuse(why);
    check_ports(options.get());
}

void
hide_passwords(int argc, char **argv, const std::string &conninfo,
               const std::vector<std::string> &properties)
{
    const auto tail_of = [](char *argument, const std::string &text) -> char *
    {
        const std::size_t length = std::strlen(argument);
        char *tail = length < text.size() ? nullptr : argument + length - text.size();
        return tail != nullptr && text == tail ? tail : nullptr;
    };
    const bool secret = is_uri(conninfo) || may_hold_password(conninfo);
    for (int i = 1; i < argc; i++)
    {
        if (char *tail = secret ? tail_of(argv[i], conninfo) : nullptr)
            hide(tail);
        for (const std::string &property : properties)
        {
            const std::size_t equals = property.find('=');
            if (equals == std::string::npos || !is_secret(property.substr(0, equals)))
                continue;
            if (char *tail = tail_of(argv[i], property))
                hide(tail + equals + 1);
        }
    }
}

} // namespace outbox::ctl
