#include "name_lookup.h"

#include "connect.h"
#include "detached_thread.h"
#include "system_error.h"

#include <cerrno>
#include <map>
#include <mutex>
#include <tuple>

#include <poll.h>
#include <pthread.h>

namespace outbox::v0::detail
{

namespace
{

constexpr auto kFresh = std::chrono::seconds(30);

// Host, service, and the hints that matter.
using Key = std::tuple<std::string, std::string, int, int, int, int>;

NameLookup::Answer
look_up(const Key &key, int more_flags)
{
    const auto &[host, service, flags, family, type, protocol] = key;
    addrinfo hints = {};
    hints.ai_flags = flags | more_flags;
    hints.ai_family = family;
    hints.ai_socktype = type;
    hints.ai_protocol = protocol;
    addrinfo *found = nullptr;
    NameLookup::Answer answer;
    answer.error =
        getaddrinfo(host.c_str(), service.empty() ? nullptr : service.c_str(), &hints, &found);
    answer.system_error = answer.error == EAI_SYSTEM ? errno : 0;
    if (answer.error == 0)
        answer.list.reset(found, &freeaddrinfo);
    answer.time = NameLookup::Clock::now();
    return answer;
}

} // namespace

struct NameLookup::Table
{
    std::mutex mutex;
    std::map<Key, std::shared_ptr<NameLookup>> lookups;
};

// Never destroyed, as threads of librdkafka may ask while the process ends. A process that forks
// while another thread has the table in hand would leave its child one that is locked for ever.
NameLookup::Table &
NameLookup::table()
{
    static Table &one = []() -> Table &
    {
        if (const int error =
                pthread_atfork([] { table().mutex.lock(); }, [] { table().mutex.unlock(); },
                               [] { table().mutex.unlock(); }))
            throw SystemError("pthread_atfork", error);
        return *new Table;
    }();
    return one;
}

void
NameLookup::answer_with(Answer answer)
{
    promise_.set_value(std::move(answer));
    ended_.wake();
}

bool
NameLookup::ended() const
{
    return answer_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

bool
NameLookup::wait(Clock::time_point deadline, const StopFlag *stop) const
{
    while (!ended())
    {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
        if (left <= 0 || (stop != nullptr && stop->raised()))
            return false;
        wait_for_socket(ended_.get(), POLLIN, static_cast<int>(left), stop);
    }
    return true;
}

bool
NameLookup::may_be_joined() const
try
{
    // The thread of a process that has forked is not in the other one.
    if (process_ != getpid())
        return false;
    return !ended() || (answer_.get().error == 0 && Clock::now() - answer_.get().time < kFresh);
}
catch (const std::bad_alloc &)
{
    return false; // there is no answer: the name is looked up again
}

std::shared_ptr<NameLookup>
NameLookup::of(const std::string &host, const std::string &service, const addrinfo &hints)
{
    const Key key(host, service, hints.ai_flags, hints.ai_family, hints.ai_socktype,
                  hints.ai_protocol);
    auto lookup = std::make_shared<NameLookup>();
    Answer numeric = look_up(key, AI_NUMERICHOST | AI_NUMERICSERV);
    if (numeric.error == 0)
    {
        lookup->answer_with(std::move(numeric));
        return lookup;
    }
    const std::lock_guard<std::mutex> lock(table().mutex);
    std::shared_ptr<NameLookup> &known = table().lookups[key];
    if (known && known->may_be_joined())
        return known;
    start_detached(
        [lookup, key]
        {
            try
            {
                lookup->answer_with(look_up(key, 0));
            }
            catch (...) // no memory; take() throws it
            {
                lookup->promise_.set_exception(std::current_exception());
                lookup->ended_.wake();
            }
        });
    known = lookup;
    return lookup;
}

NameLookup::Answer
NameLookup::take()
{
    {
        const std::lock_guard<std::mutex> lock(table().mutex);
        auto &lookups = table().lookups;
        for (auto one = lookups.begin(); one != lookups.end();)
            one = one->second.get() == this ? lookups.erase(one) : std::next(one);
    }
    return answer_.get();
}

} // namespace outbox::v0::detail
