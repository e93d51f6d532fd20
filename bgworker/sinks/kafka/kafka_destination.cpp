#include "kafka_destination.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace outbox
{

KafkaDestination::~KafkaDestination()
{
    for (const int fd : wake_fds_)
        if (fd >= 0)
            (void) ::close(fd);
}

bool
KafkaDestination::open_wake_fds(Failure &why) noexcept
{
    for (int &fd : wake_fds_)
    {
        fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (fd >= 0)
            continue;
        kafka::describe_config(why, "", "no eventfd could be opened: %s", std::strerror(errno));
        return false;
    }
    return true;
}

std::unique_ptr<Sink>
KafkaDestination::open(Use use, int oversized_batches, Failure &why)
{
    return std::unique_ptr<Sink>(create_producer(setup_, oversized_batches, wake_fd(use), why));
}

} // namespace outbox
