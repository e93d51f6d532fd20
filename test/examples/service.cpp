#include "service.h"

#include <algorithm>
#include <csignal>

#include "support/workspace.h"

namespace outbox::test
{

namespace
{

constexpr size_t kShown = 3000;            // characters in a failure
constexpr auto kPause = Milliseconds(300); // before what ended by itself is started again

} // namespace

Service::Service(Command command)
    : command_(std::move(command)), process_(std::make_unique<Process>(command_))
{
}

void
Service::supervise()
{
    if (process_ && !process_->running())
    {
        ++ended_;
        process_.reset();
        not_before_ = Clock::now() + kPause;
    }
    if (!process_ && Clock::now() >= not_before_)
        process_ = std::make_unique<Process>(command_);
}

void
Service::kill_and_restart()
{
    kill_for(Milliseconds(0));
    supervise();
}

void
Service::kill_for(Milliseconds away)
{
    process_.reset();
    not_before_ = Clock::now() + away;
}

std::optional<int>
Service::stop(Milliseconds grace)
{
    if (!process_)
        return std::nullopt;
    process_->signal(SIGTERM);
    return process_->wait_for(grace);
}

std::string
Service::output() const
{
    return read_file(command_.output);
}

std::string
Service::last_output() const
{
    const std::string all = output();
    return all.substr(all.size() - std::min(all.size(), kShown));
}

} // namespace outbox::test
