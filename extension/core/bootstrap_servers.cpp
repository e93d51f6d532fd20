#include "bootstrap_servers.h"

#include "characters.h"

#include <algorithm>
#include <cstddef>

namespace outbox
{

namespace
{

bool
is_port(std::string_view text) noexcept
{
    if (text.empty() || text.size() > 5)
        return false;
    unsigned port = 0;
    for (char c : text)
    {
        if (!is_digit(c))
            return false;
        port = port * 10 + static_cast<unsigned>(c - '0');
    }
    return port >= 1 && port <= 65535;
}

bool
is_address_character(char c) noexcept
{
    return is_name_character(c) || c == ':' || c == '%';
}

// Returns nullptr when `entry` is host, host:port, [address] or [address]:port, else what is wrong.
const char *
check_server(std::string_view entry) noexcept
{
    std::string_view host = entry;
    std::string_view after;
    if (entry.empty())
        return "has an empty entry";
    if (entry.find("://") != std::string_view::npos)
        return "has an entry that starts with a protocol";
    if (entry.front() == '[')
    {
        const std::size_t close = entry.find(']');
        if (close == std::string_view::npos)
            return "has a \"[\" without a \"]\"";
        host = entry.substr(1, close - 1);
        after = entry.substr(close + 1);
        if (host.find(':') == std::string_view::npos ||
            !std::all_of(host.begin(), host.end(), is_address_character))
            return "has brackets around something that is not an IPv6 address";
    }
    else
    {
        const std::size_t colon = entry.find(':');
        host = entry.substr(0, colon);
        after = colon == std::string_view::npos ? std::string_view() : entry.substr(colon);
        if (after.find(':', 1) != std::string_view::npos)
            return "has more than one \":\" outside of brackets";
        if (host.empty())
            return "has an entry without a host";
        if (host.size() > 253 || !std::all_of(host.begin(), host.end(), is_name_character))
            return "has an entry that is not a host name";
    }
    if (!after.empty() && (after.front() != ':' || !is_port(after.substr(1))))
        return "has a port that is not a number from 1 to 65535";
    return nullptr;
}

} // namespace

Verdict
check_bootstrap_servers(std::string_view text) noexcept
{
    std::string_view rest = text;
    for (std::size_t entry = 1; !text.empty(); ++entry)
    {
        const std::size_t comma = rest.find(',');
        std::string_view server = rest.substr(0, comma);
        while (!server.empty() && server.front() == ' ')
            server.remove_prefix(1);
        const char *reason = check_server(server);
        if (reason != nullptr)
            return refuse("List brokers as host:port, separated by commas, for example "
                          "kafka1:9092,kafka2:9092 or [::1]:9092; without a port it is 9092.",
                          "%s (entry %zu)", reason, entry);
        if (comma == std::string_view::npos)
            break;
        rest.remove_prefix(comma + 1);
    }
    return {};
}

} // namespace outbox
