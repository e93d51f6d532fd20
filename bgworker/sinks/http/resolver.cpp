#include "resolver.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mutex>
#include <utility>

#include "bgworker/sinks/signals_blocked.h"
#include "extension/core/networks.h"

namespace outbox::http
{

namespace
{

constexpr std::int64_t kKnownForUs = std::int64_t{30} * 1000 * 1000;
// When it is tried again after a failure that does not matter yet.
constexpr std::int64_t kAgainUs = std::int64_t{5} * 1000 * 1000;
// A look-up that takes longer counts as failed; it still ends by itself, and no other one begins.
constexpr std::int64_t kLongestUs = std::int64_t{10} * 1000 * 1000;
constexpr int kMostAddresses = 16;

bool
is_address(const std::string &host)
{
    unsigned char bytes[16];
    return inet_pton(AF_INET, host.c_str(), bytes) == 1 ||
           inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

std::string
list_of(const addrinfo *first)
{
    std::string list;
    int count = 0;
    for (const addrinfo *item = first; item != nullptr && count < kMostAddresses;
         item = item->ai_next)
    {
        if (item->ai_addr == nullptr || (item->ai_family != AF_INET && item->ai_family != AF_INET6))
            continue;
        const std::string address = address_text(*item->ai_addr);
        list += (count++ > 0 ? "," : "") +
                (item->ai_family == AF_INET6 ? '[' + address + ']' : address);
    }
    return list;
}

} // namespace

WakeUps::~WakeUps()
{
    for (const int fd : fds_)
        if (fd >= 0)
            (void) ::close(fd);
}

bool
WakeUps::open() noexcept
{
    for (int &fd : fds_)
    {
        fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (fd < 0)
            return false;
    }
    return true;
}

void
WakeUps::add_sink(std::size_t use) noexcept
{
    const std::lock_guard<std::mutex> lock(mutex_);
    sinks_[use]++;
}

void
WakeUps::remove_sink(std::size_t use) noexcept
{
    const std::lock_guard<std::mutex> lock(mutex_);
    eventfd_t count = 0;
    if (--sinks_[use] == 0)
        (void) eventfd_read(fds_[use], &count); // nothing there is fine
}

void
WakeUps::wake_all() noexcept
{
    const std::lock_guard<std::mutex> lock(mutex_);
    for (std::size_t use = 0; use < fds_.size(); use++)
        if (sinks_[use] > 0)
            (void) eventfd_write(fds_[use], 1); // fails only when it is full, and so readable
}

// Belongs to the thread and to the resolver, whichever lives longer.
struct Resolver::LookUp
{
    std::string host;
    std::shared_ptr<WakeUps> wake_ups;
    std::mutex mutex;
    bool done = false;
    int error = 0;
    std::string addresses;

    static void *run(void *argument) noexcept;
    void ask();
};

void
Resolver::LookUp::ask()
{
    addrinfo hints = {};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo *found = nullptr;
    const int result = getaddrinfo(host.c_str(), nullptr, &hints, &found);
    std::string list;
    try
    {
        list = result == 0 ? list_of(found) : std::string();
    }
    catch (const std::exception &)
    {
        list.clear();
    }
    if (result == 0)
        freeaddrinfo(found);
    const std::lock_guard<std::mutex> lock(mutex);
    error = result == 0 && list.empty() ? EAI_NONAME : result;
    addresses.swap(list);
    done = true;
}

void *
Resolver::LookUp::run(void *argument) noexcept
{
    const std::unique_ptr<std::shared_ptr<LookUp>> self(
        static_cast<std::shared_ptr<LookUp> *>(argument));
    (*self)->ask();
    (*self)->wake_ups->wake_all();
    return nullptr;
}

Resolver::Resolver(std::string host, int port, std::shared_ptr<WakeUps> wake_ups)
    : host_(std::move(host)), port_(port), wake_ups_(std::move(wake_ups)),
      literal_(is_address(host_))
{
}

Resolver::~Resolver() = default;

bool
Resolver::begin(std::int64_t now_us)
{
    auto look_up = std::make_shared<LookUp>();
    look_up->host = host_;
    look_up->wake_ups = wake_ups_;
    auto handle = std::make_unique<std::shared_ptr<LookUp>>(look_up);
    pthread_t thread;
    const SignalsBlocked blocked;
    if (pthread_create(&thread, nullptr, LookUp::run, handle.get()) != 0)
        return false;
    (void) handle.release();
    (void) pthread_detach(thread);
    under_way_ = std::move(look_up);
    asked_us_ = now_us;
    return true;
}

// The answer of a look-up, if it has ended.
bool
Resolver::take(std::int64_t now_us)
{
    const std::lock_guard<std::mutex> lock(under_way_->mutex);
    if (!under_way_->done)
        return false;
    error_ = under_way_->error == 0 ? "" : gai_strerror(under_way_->error);
    if (error_.empty())
    {
        addresses_ = host_ + ':' + std::to_string(port_) + ':' + under_way_->addresses;
        known_until_us_ = now_us + kKnownForUs;
    }
    return true;
}

Resolver::State
Resolver::look(std::int64_t now_us)
{
    if (literal_)
        return State::known;
    if (under_way_ != nullptr && take(now_us))
    {
        under_way_.reset();
        return error_.empty() ? State::known : failed(now_us);
    }
    if (now_us < known_until_us_)
        return State::known;
    if (under_way_ == nullptr && !begin(now_us))
    {
        error_ = "no thread could be started";
        return failed(now_us);
    }
    if (now_us - asked_us_ > kLongestUs)
    {
        asked_us_ = now_us;
        error_ = "the look-up takes too long";
        return failed(now_us);
    }
    return is_known() ? State::known : State::asking;
}

// What was known is as good as before.
Resolver::State
Resolver::failed(std::int64_t now_us) noexcept
{
    if (!is_known())
        return State::failed;
    known_until_us_ = now_us + kAgainUs;
    return State::known;
}

} // namespace outbox::http
