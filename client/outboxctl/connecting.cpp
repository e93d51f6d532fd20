#include "connecting.h"

#include "errors.h"
#include "interrupts.h"
#include "standard_error.h"

#include "client/src/event_fd.h"
#include "client/src/stop_flag.h"
#include "outbox/error.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <thread>

#include <poll.h>

namespace outbox::ctl
{

namespace
{

namespace shared = outbox::v0::detail;

constexpr auto kLimit = std::chrono::minutes(10); // for all hosts
constexpr std::size_t kMostNotices = 20;

std::atomic<int> running{0};

// What the thread and we share.
struct Attempt
{
    explicit Attempt(Connector::Settings all) : settings(std::move(all)) {}

    const Connector::Settings settings;
    shared::StopFlag stop;
    const shared::EventFd ready;
    Connected connected;
    bool lacks_memory = false;
    std::atomic<bool> done{false}; // set before ready is, after the others
};

// libpq, which calls it, knows no exceptions.
void
keep(std::vector<std::string> &notices, const char *text) noexcept
try
{
    if (notices.size() < kMostNotices)
        notices.emplace_back(text);
}
catch (const std::bad_alloc &)
{
    return; // what is not shown is no error
}

void
make_connection(Attempt &attempt)
try
{
    Connector connector(attempt.settings, kLimit);
    connector.keep_whole_errors(); // half a password would not be known as one
    connector.pass_notices_to([&](const char *text) { keep(attempt.connected.notices, text); });
    try
    {
        attempt.connected.connection = connector.connect(attempt.stop);
    }
    catch (const outbox::Error &error) // of the database, or the machine
    {
        attempt.connected.error = error.what();
        attempt.connected.connection = connector.take_failed();
    }
}
catch (const shared::Stopped &)
{
    attempt.connected.error = "stopped"; // nobody waits
}
catch (const std::bad_alloc &)
{
    attempt.lacks_memory = true;
}

// Signals are blocked in it as they are in us, so they stay ours.
void
run(const std::shared_ptr<Attempt> &attempt)
{
    mask_errors_of_this_thread(); // if a library writes there
    make_connection(*attempt);
    attempt->done = true;
    attempt->ready.wake();
    running--;
}

std::shared_ptr<Attempt>
begin(const Connector::Settings &settings)
try
{
    auto attempt = std::make_shared<Attempt>(settings);
    running++;
    std::thread([attempt] { run(attempt); }).detach();
    return attempt;
}
catch (const outbox::Error &error)
{
    throw Error(kFailed, std::string("cannot connect: ") + error.what());
}

} // namespace

Connected
connect(const Connector::Settings &settings)
{
    const std::shared_ptr<Attempt> attempt = begin(settings);
    // However we leave.
    const std::unique_ptr<shared::StopFlag, void (*)(shared::StopFlag *)> stopped(
        &attempt->stop, [](shared::StopFlag *stop) { stop->raise(); });
    const auto deadline = Clock::now() + kLimit;
    PostponedStop stop;
    while (!attempt->done)
    {
        const Woken woken = wait_for(attempt->ready.get(), POLLIN, deadline);
        stop.note(woken);
        if (woken == Woken::kTimeout)
            throw ConnectionError("no connection was made within " +
                                  std::to_string(kLimit.count()) + " minutes");
    }
    if (attempt->lacks_memory)
        throw std::bad_alloc();
    return std::move(attempt->connected);
}

bool
connecting_lingers()
{
    return running > 0;
}

} // namespace outbox::ctl
