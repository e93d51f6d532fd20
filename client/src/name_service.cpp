#include "name_service.h"

#include "connect.h"
#include "event_fd.h"

#include <algorithm>
#include <array>
#include <future>
#include <thread>

#include <netdb.h>
#include <poll.h>

namespace outbox::v0::detail
{

namespace
{

struct Answer
{
    int error = 0; // of getaddrinfo()
    std::vector<std::string> addresses;
};

Answer
look_up(const std::string &host, int flags)
{
    addrinfo hints = {};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags;
    addrinfo *found = nullptr;
    Answer answer;
    answer.error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, &freeaddrinfo);
    for (const addrinfo *one = found; one != nullptr; one = one->ai_next)
    {
        std::array<char, NI_MAXHOST> text = {};
        if (getnameinfo(one->ai_addr, one->ai_addrlen, text.data(), text.size(), nullptr, 0,
                        NI_NUMERICHOST) == 0 &&
            std::find(answer.addresses.begin(), answer.addresses.end(), text.data()) ==
                answer.addresses.end())
            answer.addresses.emplace_back(text.data());
    }
    return answer;
}

} // namespace

struct NameService::Lookup
{
    const EventFd ended;
    std::promise<Answer> promise;
    std::future<Answer> answer = promise.get_future();
};

void
NameService::begin(const std::string &host)
{
    if (lookups_.count(host) != 0)
        return;
    auto lookup = std::make_shared<Lookup>();
    Answer numeric = look_up(host, AI_NUMERICHOST);
    if (numeric.error == 0)
        lookup->promise.set_value(std::move(numeric));
    else
        std::thread(
            [lookup, host]
            {
                try
                {
                    lookup->promise.set_value(look_up(host, 0));
                }
                catch (...) // no memory
                {
                    lookup->promise.set_exception(std::current_exception());
                }
                lookup->ended.wake();
            })
            .detach();
    lookups_[host] = std::move(lookup);
}

std::vector<std::string>
NameService::addresses(const std::string &host, Clock::time_point deadline, const StopFlag *stop,
                       std::string *why)
{
    begin(host);
    const std::shared_ptr<Lookup> lookup = lookups_.at(host);
    while (lookup->answer.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
        if (left <= 0)
        {
            *why = host + ": no answer from the name service";
            return {};
        }
        wait_for_socket(lookup->ended.get(), POLLIN, static_cast<int>(left), stop);
        if (stop != nullptr && stop->raised())
            throw Stopped();
    }
    lookups_.erase(host);
    Answer answer = lookup->answer.get();
    if (answer.error != 0)
        *why = host + ": " + gai_strerror(answer.error);
    return std::move(answer.addresses);
}

} // namespace outbox::v0::detail
