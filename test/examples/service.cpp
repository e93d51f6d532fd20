#include "service.h"

#include <csignal>

#include "support/workspace.h"

namespace outbox::test
{

Service::Service(Command command)
    : command_(std::move(command)), process_(std::make_unique<Process>(command_))
{
}

void
Service::supervise()
{
    if (process_->running())
        return;
    ++ended_;
    process_ = std::make_unique<Process>(command_);
}

void
Service::kill_and_restart()
{
    process_->kill9();
    process_ = std::make_unique<Process>(command_);
}

std::optional<int>
Service::stop(Milliseconds grace)
{
    process_->signal(SIGTERM);
    return process_->wait_for(grace);
}

std::string
Service::output() const
{
    return read_file(command_.output);
}

} // namespace outbox::test
