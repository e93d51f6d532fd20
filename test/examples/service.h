#pragma once

#include <memory>
#include <optional>
#include <string>

#include "support/process.h"

namespace outbox::test
{

// A program that is started again whenever it has ended, as systemd or Kubernetes would.
class Service
{
public:
    explicit Service(Command command);

    // Starts it again if it has ended by itself, which it may do when a server is away.
    void supervise();
    // Takes it away without warning, with all its processes, and starts another one: at once, or in
    // supervise() when that time is over.
    void kill_and_restart();
    void kill_for(Milliseconds away);
    // Asks it to end. The status, or nothing if it had to be killed.
    std::optional<int> stop(Milliseconds grace = std::chrono::seconds(20));

    // Whether there is a process: none is while it waits to be started again.
    bool started() const { return process_ != nullptr; }
    Process &process() { return *process_; }
    // What all its processes have said, and the end of it.
    std::string output() const;
    std::string last_output() const;
    // How often it had ended by itself.
    int ended() const { return ended_; }

private:
    Command command_;
    int ended_ = 0;
    Clock::time_point not_before_; // when the next one may start
    std::unique_ptr<Process> process_;
};

} // namespace outbox::test
