#include "broker_names.h"

#include "name_lookup.h"
#include "system_error.h"

#include <algorithm>
#include <cerrno>

namespace outbox::v0::detail
{

namespace
{

constexpr auto kLimit = std::chrono::seconds(30); // the C library's own for three name servers

} // namespace

int
BrokerNames::lend(const char *host, const char *service, const addrinfo &hints, addrinfo **result)
{
    const auto deadline = NameLookup::Clock::now() + kLimit;
    const std::shared_ptr<NameLookup> lookup = NameLookup::of(host, service, hints);
    if (!lookup->wait(deadline, &given_up_))
        return EAI_AGAIN;
    const NameLookup::Answer answer = lookup->take();
    if (answer.error != 0)
    {
        errno = answer.system_error;
        return answer.error;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    lent_.push_back(answer.list);
    *result = answer.list.get();
    return 0;
}

// Two of librdkafka's threads may have been given the same list.
void
BrokerNames::take_back(const addrinfo *list)
{
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = std::find_if(lent_.begin(), lent_.end(),
                                    [&](const auto &one) { return one.get() == list; });
    if (found != lent_.end())
        lent_.erase(found);
}

int
BrokerNames::resolve(const char *host, const char *service, const addrinfo *hints,
                     addrinfo **result) noexcept
try
{
    if (host == nullptr)
    {
        take_back(*result);
        return 0;
    }
    return lend(host, service == nullptr ? "" : service, hints == nullptr ? addrinfo{} : *hints,
                result);
}
catch (const SystemError &error)
{
    errno = error.number();
    return EAI_SYSTEM; // librdkafka says so, and asks again
}
catch (const std::exception &)
{
    return EAI_MEMORY;
}

} // namespace outbox::v0::detail
