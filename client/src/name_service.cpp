#include "name_service.h"

#include "connect.h"

#include <algorithm>
#include <array>
#include <system_error>

#include <netdb.h>
#include <poll.h>

namespace outbox::v0::detail
{

namespace
{

std::vector<std::string>
to_texts(const addrinfo *list)
{
    std::vector<std::string> addresses;
    for (const addrinfo *one = list; one != nullptr; one = one->ai_next)
    {
        std::array<char, NI_MAXHOST> text = {};
        if (getnameinfo(one->ai_addr, one->ai_addrlen, text.data(), text.size(), nullptr, 0,
                        NI_NUMERICHOST) == 0 &&
            std::find(addresses.begin(), addresses.end(), text.data()) == addresses.end())
            addresses.emplace_back(text.data());
    }
    return addresses;
}

} // namespace

void
NameService::begin(const std::string &host)
{
    addrinfo hints = {};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    try
    {
        lookups_[host] = NameLookup::of(host, "", hints);
    }
    catch (const std::system_error &error)
    {
        // No thread, or no descriptor: as if the name service had no answer.
        lookups_.erase(host);
        failures_[host] = error.what();
    }
}

std::vector<std::string>
NameService::addresses(const std::string &host, Clock::time_point deadline, const StopFlag *stop,
                       std::string *why)
{
    if (lookups_.count(host) == 0)
        begin(host);
    if (lookups_.count(host) == 0)
    {
        *why = host + ": " + failures_[host];
        return {};
    }
    const std::shared_ptr<NameLookup> lookup = lookups_.at(host);
    lookups_.erase(host);
    while (!lookup->ended())
    {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
        if (left <= 0)
        {
            *why = host + ": no answer from the name service";
            return {};
        }
        wait_for_socket(lookup->fd(), POLLIN, static_cast<int>(left), stop);
        if (stop != nullptr && stop->raised())
            throw Stopped();
    }
    const NameLookup::Answer answer = lookup->take();
    if (answer.error != 0)
        *why = host + ": " + gai_strerror(answer.error);
    return to_texts(answer.list.get());
}

} // namespace outbox::v0::detail
