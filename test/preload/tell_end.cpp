// Preloaded into every server: tells in its log where a process crashed, and when a relay runs what
// exit() runs, beside the threads of librdkafka.
#include <csignal>
#include <cstdio>
#include <cstring>
#include <execinfo.h>
#include <fcntl.h>
#include <initializer_list>
#include <unistd.h>

namespace
{

void
write_line(const char *what, long number)
{
    char line[128];
    const int length = std::snprintf(line, sizeof line, "outbox test: %s %ld\n", what, number);
    static_cast<void>(!write(STDERR_FILENO, line, static_cast<size_t>(length)));
}

void
tell_stack(int number)
{
    constexpr int kMostFrames = 64;
    void *frames[kMostFrames];
    write_line("crash by signal", number);
    backtrace_symbols_fd(frames, backtrace(frames, kMostFrames), STDERR_FILENO);
    static_cast<void>(std::signal(number, SIG_DFL));
    static_cast<void>(raise(number));
}

__attribute__((constructor)) void
begin()
{
    void *frame;
    static_cast<void>(backtrace(&frame, 1)); // loads what it needs
    struct sigaction action = {};
    action.sa_handler = tell_stack;
    action.sa_flags = SA_NODEFER;
    for (const int number : {SIGSEGV, SIGBUS, SIGILL, SIGABRT})
        static_cast<void>(sigaction(number, &action, nullptr));
}

__attribute__((destructor)) void
end()
{
    char title[64] = "";
    const int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (file == -1)
        return;
    static_cast<void>(!read(file, title, sizeof title - 1));
    static_cast<void>(close(file));
    if (std::strstr(title, "outbox relay") != nullptr)
        write_line("exit handlers run in relay", getpid());
}

} // namespace
