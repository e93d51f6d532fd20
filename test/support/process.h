#pragma once

#include <csignal>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "wait.h"

namespace outbox::test
{

// What to run and how. The child never outlives this program: it gets `death_signal` when we die.
struct Command
{
    explicit Command(std::vector<std::string> words = {}) : argv(std::move(words)) {}

    std::vector<std::string> argv;
    std::string directory; // working directory; empty: run_dir()
    std::string output;    // file that stdout and stderr are appended to; empty: ours
    std::map<std::string, std::string> environment; // added to ours
    bool as_server_user = false;                    // PostgreSQL's programs refuse to run as root
    bool keep_stdin_open = false; // stdin is a pipe held by Process; otherwise /dev/null
    int death_signal = SIGKILL;
};

// "exit code 3" or "signal 9 (Killed)", from a status as waitpid() gives it.
std::string describe_status(int status);

// For a child between fork and exec: no signal is blocked, and those that a shell may have us
// ignore act as they do by default. A shell starts what is in its background with SIGINT and
// SIGQUIT ignored, nohup with SIGHUP, and programs inherit that. False when it fails, with errno
// set.
bool take_default_signals() noexcept;

// A child process with its own process group. The destructor kills it and everything in its group.
class Process
{
public:
    explicit Process(const Command &command);
    ~Process();
    Process(const Process &) = delete;
    Process &operator=(const Process &) = delete;

    pid_t pid() const { return pid_; }
    bool running() { return !wait_for(Milliseconds(0)).has_value(); }

    // The exit status as soon as there is one; nothing when `limit` passed first.
    std::optional<int> wait_for(Milliseconds limit);

    // Sends a signal to the process alone, not to its group. Does nothing once it has ended.
    void signal(int number);
    // When it returns all of its threads stand still: a server answers nothing any more.
    void pause();
    void resume() { signal(SIGCONT); }
    void kill9();

    // Asks by `number` to end, waits, and after `grace` kills. Returns whether it ended by itself.
    bool stop(int number, Milliseconds grace);

    // One line on the child's stdin; needs keep_stdin_open.
    void write_line(const std::string &line);

private:
    pid_t pid_ = -1;
    int stdin_fd_ = -1;
    std::optional<int> status_;
};

struct Finished
{
    int status = -1;
    bool timed_out = false;
    std::string output; // stdout and stderr together

    bool ok() const { return status == 0 && !timed_out; }
};

// Runs a program to its end and captures what it says; kills it and its children at `limit`.
Finished run(Command command, Milliseconds limit = std::chrono::seconds(60));

// The same, for programs that must succeed: throws with the program's output if it does not.
std::string run_or_throw(const Command &command, Milliseconds limit = std::chrono::seconds(60));

// What the kernel says of a process's memory, in kB: "RssAnon" is what it has for itself now,
// "VmHWM" the most that it has had. 0 when the process is gone.
long memory_kb(pid_t pid, const std::string &kind);

} // namespace outbox::test
