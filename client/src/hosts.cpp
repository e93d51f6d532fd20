#include "hosts.h"

#include "outbox/error.h"

namespace outbox::v0::detail
{

namespace
{

std::vector<std::string>
split(const std::string &list)
{
    std::vector<std::string> parts(1);
    for (const char c : list)
        if (c == ',')
            parts.emplace_back();
        else
            parts.back() += c;
    return parts;
}

} // namespace

std::string
value_of(const AllSettings &settings, const char *name)
{
    const auto found = settings.find(name);
    return found == settings.end() ? "" : found->second;
}

bool
is_socket(const std::string &host)
{
    return !host.empty() && (host.front() == '/' || host.front() == '@');
}

std::vector<Host>
hosts_of(const AllSettings &all)
{
    const std::vector<std::string> names = split(value_of(all, "host"));
    const std::vector<std::string> addresses = split(value_of(all, "hostaddr"));
    const std::vector<std::string> ports = split(value_of(all, "port"));
    const bool have_names = !value_of(all, "host").empty();
    const bool have_addresses = !value_of(all, "hostaddr").empty();
    const std::size_t count = have_addresses ? addresses.size() : names.size();
    if (have_names && names.size() != count)
        throw DatabaseError("could not match " + std::to_string(names.size()) + " host names to " +
                                std::to_string(count) + " hostaddr values",
                            "08001");
    if (ports.size() != 1 && ports.size() != count)
        throw DatabaseError("could not match " + std::to_string(ports.size()) +
                                " port numbers to " + std::to_string(count) + " hosts",
                            "08001");
    std::vector<Host> hosts;
    for (std::size_t i = 0; i < count; ++i)
        hosts.push_back({i, have_names ? names[i] : "", have_addresses ? addresses[i] : "",
                         ports[ports.size() == 1 ? 0 : i]});
    return hosts;
}

} // namespace outbox::v0::detail
