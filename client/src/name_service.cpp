#include "name_service.h"

#include "system_error.h"

#include <algorithm>
#include <array>

#include <netdb.h>

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

std::shared_ptr<NameLookup>
look_up(const std::string &host)
{
    addrinfo hints = {};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    return NameLookup::of(host, "", hints);
}

} // namespace

void
NameService::begin(const std::string &host)
try
{
    lookups_[host] = look_up(host);
}
catch (const SystemError &)
{
    // addresses() tries again, and says why if that fails too.
}

std::vector<std::string>
NameService::addresses(const std::string &host, Clock::time_point deadline, const StopFlag *stop,
                       std::string *why)
{
    std::shared_ptr<NameLookup> lookup = std::move(lookups_[host]);
    lookups_.erase(host);
    try
    {
        if (!lookup)
            lookup = look_up(host);
    }
    catch (const SystemError &error)
    {
        *why = host + ": " + error.what(); // no thread, or no descriptor
        return {};
    }
    if (!lookup->wait(deadline, stop))
    {
        if (stop != nullptr && stop->raised())
            throw Stopped();
        *why = host + ": no answer from the name service";
        return {};
    }
    const NameLookup::Answer answer = lookup->take();
    if (answer.error != 0)
        *why = host + ": " + gai_strerror(answer.error);
    return to_texts(answer.list.get());
}

} // namespace outbox::v0::detail
