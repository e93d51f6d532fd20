#include "piped.h"

#include <array>
#include <csignal>
#include <cstdlib>
#include <functional>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/process.h"

namespace outbox::test
{

namespace
{

[[noreturn]] void
become(const Environment &environment, const Words &arguments, const std::string &err,
       const std::function<void()> &set_output)
{
    const int input = open("/dev/null", O_RDONLY);
    const int errors = open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || dup2(input, STDIN_FILENO) < 0 ||
        dup2(errors, STDERR_FILENO) < 0 || !take_default_signals())
        _exit(126);
    (void) close(input);
    (void) close(errors);
    set_output();
    for (const auto &[name, value] : environment)
        if (setenv(name.c_str(), value.c_str(), 1) != 0)
            _exit(126);
    // As it comes from programs that ignore it, and is inherited.
    (void) std::signal(SIGPIPE, arguments.size() % 2 == 0 ? SIG_IGN : SIG_DFL);
    std::string program = outboxctl();
    std::vector<char *> words = {program.data()};
    for (const std::string &word : arguments)
        words.push_back(const_cast<char *>(word.c_str()));
    words.push_back(nullptr);
    execv(words[0], words.data());
    _exit(127);
}

Read
await(pid_t child, const std::string &err, Milliseconds limit)
{
    Read result;
    int status = 0;
    if (wait_until(limit, [&] { return waitpid(child, &status, WNOHANG) == child; }))
        result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    else if (kill(child, SIGKILL) == 0)
        (void) waitpid(child, nullptr, 0);
    result.err = read_file(err);
    return result;
}

} // namespace

Read
read_and_leave(const Environment &environment, const Words &arguments, std::size_t bytes,
               Milliseconds limit)
{
    const std::string err = run_dir() / unique_name("piped");
    std::array<int, 2> ends = {};
    if (pipe2(ends.data(), O_CLOEXEC) != 0)
        throw std::runtime_error("no pipe");
    if (bytes == 0)
        (void) close(ends[0]);
    const pid_t child = fork();
    if (child == 0)
        become(environment, arguments, err,
               [&]
               {
                   if (dup2(ends[1], STDOUT_FILENO) < 0)
                       _exit(126);
               });
    (void) close(ends[1]);
    std::string out;
    const auto deadline = Clock::now() + limit;
    std::array<char, 4096> part = {};
    while (out.size() < bytes && Clock::now() < deadline)
    {
        pollfd watched = {ends[0], POLLIN, 0};
        if (poll(&watched, 1, 100) <= 0)
            continue;
        const ssize_t count = read(ends[0], part.data(), std::min(part.size(), bytes - out.size()));
        if (count <= 0)
            break;
        out.append(part.data(), static_cast<std::size_t>(count));
    }
    if (bytes > 0)
        (void) close(ends[0]);
    Read result = await(child, err, limit);
    result.out = out;
    return result;
}

Read
run_into(const Environment &environment, const Words &arguments, const std::string &file,
         Milliseconds limit)
{
    const std::string err = run_dir() / unique_name("piped");
    const pid_t child = fork();
    if (child == 0)
        become(environment, arguments, err,
               [&]
               {
                   (void) close(STDOUT_FILENO);
                   if (!file.empty() && open(file.c_str(), O_WRONLY) != STDOUT_FILENO)
                       _exit(126);
               });
    return await(child, err, limit);
}

} // namespace outbox::test
