#include "process.h"

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wait.h"
#include "workspace.h"

extern char **environ;

namespace outbox::test
{

namespace
{

[[noreturn]] void
throw_errno(const std::string &what)
{
    throw std::system_error(errno, std::generic_category(), what);
}

// Everything that the child needs, made before fork(): between fork and exec of a program with
// threads only async-signal-safe calls are allowed, so no allocation and no library that locks.
struct ChildPlan
{
    explicit ChildPlan(const Command &command) : words(command.argv), directory(command.directory)
    {
        if (words.empty())
            throw std::invalid_argument("no program to run");
        if (directory.empty())
            directory = run_dir().string();
        for (std::string &word : words)
            argv.push_back(word.data());
        argv.push_back(nullptr);

        for (char **entry = environ; *entry != nullptr; ++entry)
        {
            const std::string text = *entry;
            if (command.environment.count(text.substr(0, text.find('='))) == 0)
                variables.push_back(text);
        }
        for (const auto &[name, value] : command.environment)
            variables.push_back(std::string(name).append("=").append(value));
        for (std::string &variable : variables)
            envp.push_back(variable.data());
        envp.push_back(nullptr);

        if (command.as_server_user && server_user())
            user = &*server_user();
        death_signal = command.death_signal;
        parent = getpid();
    }

    // Runs in the child; returns only when something failed, with errno set.
    void become_program() const
    {
        if (setpgid(0, 0) != 0 || chdir(directory.c_str()) != 0)
            return;
        if (dup2(stdin_fd, STDIN_FILENO) < 0 || dup2(output_fd, STDOUT_FILENO) < 0 ||
            dup2(error_fd, STDERR_FILENO) < 0)
            return;
        if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) != 0)
            return;
        if (user != nullptr && (setgroups(user->groups.size(), user->groups.data()) != 0 ||
                                setgid(user->gid) != 0 || setuid(user->uid) != 0))
            return;
        // After setuid(), which clears it. The parent may have died in between.
        if (prctl(PR_SET_PDEATHSIG, death_signal) != 0)
            return;
        if (getppid() != parent)
            _exit(1);
        if (!take_default_signals())
            return;
        execvpe(argv[0], argv.data(), envp.data());
    }

    std::vector<std::string> words;
    std::vector<std::string> variables;
    std::vector<char *> argv;
    std::vector<char *> envp;
    std::string directory;
    const ServerUser *user = nullptr;
    int stdin_fd = -1;
    int output_fd = -1;
    int error_fd = -1;
    int death_signal = SIGKILL;
    pid_t parent = -1;
};

pid_t
fork_and_exec(const ChildPlan &plan)
{
    int report[2]; // carries errno when exec fails; closed by a successful exec
    if (pipe2(report, O_CLOEXEC) != 0)
        throw_errno("pipe");
    const pid_t pid = fork();
    if (pid == 0)
    {
        plan.become_program();
        const int error = errno;
        const ssize_t sent = write(report[1], &error, sizeof(error));
        _exit(sent == sizeof(error) ? 127 : 126);
    }
    const int fork_error = errno;
    close(report[1]);
    int error = 0;
    const ssize_t got = pid > 0 ? read(report[0], &error, sizeof(error)) : 0;
    close(report[0]);
    if (pid < 0)
        throw std::system_error(fork_error, std::generic_category(), "fork");
    if (got > 0)
    {
        waitpid(pid, nullptr, 0);
        throw std::system_error(error, std::generic_category(), "cannot run " + plan.words[0]);
    }
    return pid;
}

// The kernel sends the death signal when the *thread* that forked ends. All children are therefore
// forked by one thread that lives as long as the program, whoever asks.
class Spawner
{
public:
    static pid_t spawn(const ChildPlan &plan)
    {
        static auto *spawner = new Spawner; // never destroyed: its thread must not end before we do
        std::packaged_task<pid_t()> task([&plan] { return fork_and_exec(plan); });
        std::future<pid_t> pid = task.get_future();
        {
            const std::lock_guard<std::mutex> lock(spawner->mutex_);
            spawner->tasks_.push_back(std::move(task));
        }
        spawner->wake_.notify_one();
        return pid.get();
    }

private:
    Spawner()
    {
        std::thread([this] { serve(); }).detach();
    }

    [[noreturn]] void serve()
    {
        for (;;)
        {
            std::unique_lock<std::mutex> lock(mutex_);
            wake_.wait(lock, [this] { return !tasks_.empty(); });
            std::packaged_task<pid_t()> task = std::move(tasks_.front());
            tasks_.pop_front();
            lock.unlock();
            task();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<std::packaged_task<pid_t()>> tasks_;
};

int
open_or_throw(const std::string &path, int flags)
{
    const int fd = open(path.c_str(), flags | O_CLOEXEC, 0644);
    if (fd < 0)
        throw_errno("cannot open " + path);
    return fd;
}

int
copy_or_throw(int fd)
{
    const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (copy < 0)
        throw_errno("cannot copy a file descriptor");
    return copy;
}

} // namespace

std::string
describe_status(int status)
{
    if (WIFSIGNALED(status))
        return "signal " + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) +
               ")";
    return "exit code " + std::to_string(WEXITSTATUS(status));
}

bool
take_default_signals() noexcept
{
    struct sigaction usual = {};
    usual.sa_handler = SIG_DFL;
    for (const int number : {SIGINT, SIGQUIT, SIGHUP, SIGTERM, SIGPIPE})
        if (sigaction(number, &usual, nullptr) != 0)
            return false;
    sigset_t none;
    return sigemptyset(&none) == 0 && sigprocmask(SIG_SETMASK, &none, nullptr) == 0;
}

Process::Process(const Command &command)
{
    ChildPlan plan(command);
    int pipe_fds[2] = {-1, -1};
    if (command.keep_stdin_open && pipe2(pipe_fds, O_CLOEXEC) != 0)
        throw_errno("pipe");
    stdin_fd_ = pipe_fds[1];
    plan.stdin_fd = command.keep_stdin_open ? pipe_fds[0] : open_or_throw("/dev/null", O_RDONLY);
    if (command.output.empty())
    {
        plan.output_fd = copy_or_throw(STDOUT_FILENO);
        plan.error_fd = copy_or_throw(STDERR_FILENO);
    }
    else
    {
        plan.output_fd = open_or_throw(command.output, O_WRONLY | O_CREAT | O_APPEND);
        plan.error_fd = copy_or_throw(plan.output_fd);
    }
    pid_ = Spawner::spawn(plan);
    close(plan.stdin_fd);
    close(plan.output_fd);
    close(plan.error_fd);
}

Process::~Process()
{
    kill9();
    if (stdin_fd_ >= 0)
        close(stdin_fd_);
}

std::optional<int>
Process::wait_for(Milliseconds limit)
{
    const auto ended = [this]
    {
        int status = 0;
        if (!status_ && waitpid(pid_, &status, WNOHANG) == pid_)
            status_ = status;
        return status_.has_value();
    };
    wait_until(limit, ended);
    return status_;
}

void
Process::signal(int number)
{
    if (running() && kill(pid_, number) != 0 && errno != ESRCH)
        throw_errno("kill " + std::to_string(pid_));
}

void
Process::pause()
{
    signal(SIGSTOP);
    const bool stands =
        wait_until(std::chrono::seconds(10),
                   [&]
                   {
                       siginfo_t info = {};
                       return !running() || (waitid(P_PID, static_cast<id_t>(pid_), &info,
                                                    WSTOPPED | WNOHANG) == 0 &&
                                             info.si_pid == pid_);
                   });
    if (!stands)
        throw std::runtime_error("process " + std::to_string(pid_) + " does not stop");
}

void
Process::kill9()
{
    if (!running())
        return;
    // Runs in destructors, so it complains instead of throwing.
    if (kill(-pid_, SIGKILL) != 0 || !wait_for(std::chrono::seconds(10)))
        std::cerr << "process " << pid_ << " would not die\n";
}

bool
Process::stop(int number, Milliseconds grace)
{
    signal(number);
    if (wait_for(grace))
        return true;
    kill9();
    return false;
}

void
Process::write_line(const std::string &line)
{
    const std::string text = line + "\n";
    if (write(stdin_fd_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
        throw_errno("cannot write to " + std::to_string(pid_));
}

Finished
run(Command command, Milliseconds limit)
{
    const std::string capture = run_dir() / unique_name("output.");
    command.output = capture;
    Finished result;
    {
        Process process(command);
        const std::optional<int> status = process.wait_for(limit);
        result.timed_out = !status;
        result.status = status.value_or(-1);
    }
    result.output = read_file(capture);
    std::filesystem::remove(capture);
    return result;
}

std::string
run_or_throw(const Command &command, Milliseconds limit)
{
    Finished result = run(command, limit);
    if (!result.ok())
        throw std::runtime_error(command.argv[0] + " failed (" +
                                 (result.timed_out ? "timed out" : describe_status(result.status)) +
                                 "):\n" + result.output);
    return std::move(result.output);
}

long
memory_kb(pid_t pid, const std::string &kind)
{
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(status, line);)
        if (line.rfind(kind + ":", 0) == 0)
            return std::stol(line.substr(kind.size() + 1));
    return 0;
}

} // namespace outbox::test
