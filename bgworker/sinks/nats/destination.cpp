#include "destination.h"

#include "sink.h"

#include <cerrno>
#include <cstring>
#include <sys/eventfd.h>
#include <unistd.h>

namespace outbox::nats
{

namespace
{

// The stream waits for a stream's new leader; redelivery has pauses of its own, and only needs the
// answer to the question whether there is JetStream at all.
constexpr int kStreamPatienceMs = 1000;
constexpr int kRedeliveryPatienceMs = 250;

} // namespace

NatsDestination::~NatsDestination()
{
    for (const int fd : wake_fds_)
        if (fd >= 0)
            (void) ::close(fd);
}

bool
NatsDestination::open_wake_fds(Failure &why) noexcept
{
    for (int &fd : wake_fds_)
    {
        fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (fd >= 0)
            continue;
        set_failure(why, FailureClass::config, "NO_DESCRIPTOR", "no eventfd could be opened: %s",
                    std::strerror(errno));
        return false;
    }
    return true;
}

std::unique_ptr<Sink>
NatsDestination::open(Use use, int, Failure &why)
{
    Manner manner;
    manner.renews_limit = use == Use::redelivery;
    manner.patience_ms = use == Use::redelivery ? kRedeliveryPatienceMs : kStreamPatienceMs;
    return NatsSink::create(settings_, manner, wake_fd(use), why);
}

} // namespace outbox::nats
