#include "bounded.h"

#include "errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>

#include <csignal>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace outbox::ctl
{

namespace
{

constexpr std::size_t kMostText = 16UL * 1024 * 1024;
constexpr int kOutOfMemory = 2;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// A sanitizer reserves more than any limit, and its frames are larger.
constexpr rlim_t kMostMemory = RLIM_INFINITY;
constexpr rlim_t kMostStack = 2048UL * 1024 * 1024;
#else
constexpr rlim_t kMostMemory = 1024UL * 1024 * 1024;
// Recursion is what uses it up. The kernel leaves the stack at least 128 MiB before other memory.
constexpr rlim_t kMostStack = 120UL * 1024 * 1024;
#endif

template <class Resource>
void
limit(Resource resource, rlim_t most)
{
    rlimit bound = {};
    if (::getrlimit(resource, &bound) != 0)
        ::_exit(1);
    bound.rlim_cur = std::min(most, bound.rlim_max);
    if (::setrlimit(resource, &bound) != 0)
        ::_exit(1);
}

// Never returns. Nothing of the parent's is flushed or destroyed.
[[noreturn]] void
run_child(const std::function<std::string()> &work, unsigned seconds, int output)
{
    // Who started us may have it ignored or blocked.
    sigset_t none;
    if (::signal(SIGXCPU, SIG_DFL) == SIG_ERR || ::sigemptyset(&none) != 0 ||
        ::sigprocmask(SIG_SETMASK, &none, nullptr) != 0)
        ::_exit(1);
    limit(RLIMIT_CPU, seconds);
    limit(RLIMIT_AS, kMostMemory);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_STACK,
          kMostStack); // mostly more than the shell has set; it holds for what grows from now on
    try
    {
        const std::string text = work();
        for (std::size_t sent = 0; sent < text.size();)
        {
            const ssize_t count = ::write(output, text.data() + sent, text.size() - sent);
            if (count < 0 && errno != EINTR)
                ::_exit(1);
            sent += count < 0 ? 0 : static_cast<std::size_t>(count);
        }
    }
    catch (const std::bad_alloc &)
    {
        ::_exit(kOutOfMemory);
    }
    catch (...) // the parent reports that it failed
    {
        ::_exit(1);
    }
    ::_exit(0);
}

// Up to the end, or to more than is allowed.
std::string
read_all(int input)
{
    std::string text;
    std::array<char, 65536> part = {};
    while (text.size() <= kMostText)
    {
        const ssize_t count = ::read(input, part.data(), part.size());
        if (count == 0 || (count < 0 && errno != EINTR))
            break;
        text.append(part.data(), count < 0 ? 0 : static_cast<std::size_t>(count));
    }
    return text;
}

} // namespace

Bounded
run_bounded(const std::function<std::string()> &work, unsigned seconds)
{
    std::array<int, 2> ends = {};
    if (::pipe(ends.data()) != 0)
        throw Error(kFailed, std::string("cannot make a pipe: ") + std::strerror(errno));
    // Where it is ignored, as it may be inherited, there is nothing to wait for.
    if (::signal(SIGCHLD, SIG_DFL) == SIG_ERR)
        throw Error(kFailed, std::string("cannot take signals: ") + std::strerror(errno));
    const pid_t child = ::fork();
    if (child == 0)
    {
        (void) ::close(ends[0]);
        run_child(work, seconds, ends[1]);
    }
    (void) ::close(ends[1]);
    std::string text = child < 0 ? "" : read_all(ends[0]);
    (void) ::close(ends[0]); // a child that still writes ends by that
    if (child < 0)
        throw Error(kFailed, std::string("cannot start a process: ") + std::strerror(errno));
    int status = 0;
    while (::waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            throw Error(kFailed, std::string("cannot wait for a process: ") + std::strerror(errno));
    if (text.size() > kMostText)
        return {false, fmt::format("gave more than {} MiB of text", kMostText / 1024 / 1024)};
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return {true, std::move(text)};
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
        return {false, fmt::format("took more than {} s", seconds)};
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV)
        return {false, "took more stack than there is"};
    if (WIFEXITED(status) && WEXITSTATUS(status) == kOutOfMemory)
        return {false, "took more memory than it may"};
    return {false, "did not end well"};
}

} // namespace outbox::ctl
