#include "connecting.h"

#include "errors.h"
#include "interrupts.h"
#include "standard_error.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <thread>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace outbox::ctl
{

namespace
{

constexpr auto kLimit = std::chrono::minutes(10); // for all hosts

std::atomic<int> running{0};

PGconn *
connect_now(const Settings &settings)
{
    std::vector<const char *> names;
    std::vector<const char *> values;
    for (const auto &[name, value] : settings)
    {
        names.push_back(name.c_str());
        values.push_back(value.c_str());
    }
    names.push_back(nullptr);
    values.push_back(nullptr);
    PGconn *connection = PQconnectdbParams(names.data(), values.data(), 1);
    if (connection == nullptr)
        throw std::bad_alloc();
    return connection;
}

// What the thread and we share; the last of us closes it.
struct Attempt
{
    explicit Attempt(Settings all) : settings(std::move(all)), ready(eventfd(0, EFD_CLOEXEC))
    {
        if (ready < 0)
            throw Error(kFailed, std::string("cannot wait: ") + std::strerror(errno));
    }
    ~Attempt() { (void) close(ready); }
    Attempt(const Attempt &) = delete;
    Attempt &operator=(const Attempt &) = delete;

    const Settings settings;
    const int ready;
    Connection connection{nullptr, &PQfinish}; // none: no memory
    std::atomic<bool> done{false};             // set before ready is, after connection
};

// Signals are blocked in it as they are in us, so they stay ours.
void
run(const std::shared_ptr<Attempt> &attempt)
{
    mask_errors_of_this_thread(); // what the server says now, libpq writes there
    try
    {
        attempt->connection.reset(connect_now(attempt->settings));
    }
    catch (const std::bad_alloc &)
    {
        attempt->connection.reset();
    }
    attempt->done = true;
    const std::uint64_t one = 1;
    (void) !write(attempt->ready, &one, sizeof one); // it cannot be full
    running--;
}

} // namespace

Connection
connect(const Settings &settings)
{
    const auto attempt = std::make_shared<Attempt>(settings);
    running++;
    std::thread([attempt] { run(attempt); }).detach();
    // libpq's time-outs bound it, but not with a server that always says something.
    const auto deadline = Clock::now() + kLimit;
    PostponedStop stop;
    while (!attempt->done)
    {
        const Woken woken = wait_for(attempt->ready, POLLIN, deadline);
        stop.note(woken);
        if (woken == Woken::kTimeout)
            throw ConnectionError("no connection was made within " +
                                  std::to_string(kLimit.count()) + " minutes");
    }
    if (!attempt->connection)
        throw std::bad_alloc();
    return std::move(attempt->connection);
}

bool
connecting_lingers()
{
    return running > 0;
}

} // namespace outbox::ctl
