#include "standard_output.h"

#include "errors.h"
#include "interrupts.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <exception>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace outbox::ctl
{

namespace
{

constexpr std::size_t kMostBuffered = 65536;

std::string buffer;
std::string effect;
bool failed = false;

[[noreturn]] void
fail(int error)
{
    failed = true;
    buffer.clear();
    if (error == EPIPE)
        throw OutputGone(effect);
    throw Error(kFailed, std::string("cannot write to standard output: ") + std::strerror(error));
}

// Returns when something can be written, or throws Interrupted.
void
wait_for_room()
{
    // While there is a reader who reads, no signal cuts a line in two.
    pollfd watched = {STDOUT_FILENO, POLLOUT, 0};
    const int count = poll(&watched, 1, Interrupts::active() ? 0 : -1);
    if (count < 0 && errno != EINTR)
        fail(errno);
    while (Interrupts::active() && count <= 0)
    {
        const Woken woken = wait_for(STDOUT_FILENO, POLLOUT, Clock::now() + std::chrono::hours(1));
        if (woken == Woken::kReady)
            return;
        if (woken == Woken::kStop)
            stop_here();
    }
}

void
write_all(std::string_view text)
{
    while (!text.empty())
    {
        wait_for_room();
        // A pipe that is ready takes as much at once.
        const ssize_t count =
            write(STDOUT_FILENO, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
        if (count < 0 && errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK)
            fail(errno);
        text.remove_prefix(count < 0 ? 0 : static_cast<std::size_t>(count));
    }
}

} // namespace

bool
prepare_standard_files()
{
    (void) std::signal(SIGPIPE, SIG_IGN);
    const bool open_before = fcntl(STDOUT_FILENO, F_GETFD) >= 0;
    // The lowest free number is taken, so these are filled in their order. What is opened for
    // reading cannot be written to.
    for (int file = open("/dev/null", O_RDONLY); file >= 0; file = open("/dev/null", O_RDONLY))
        if (file > STDERR_FILENO)
        {
            (void) close(file);
            break;
        }
    return open_before;
}

void
write_output(std::string_view text)
{
    if (failed)
        return;
    buffer += text;
    if (buffer.size() >= kMostBuffered)
        flush_output();
}

void
flush_output()
{
    if (failed || buffer.empty())
        return;
    // An interrupt loses what is left: the sender of the signal does not wait for it.
    const std::string text = std::move(buffer);
    buffer.clear();
    write_all(text);
}

void
flush_output_if_possible() noexcept
{
    try
    {
        flush_output();
    }
    catch (const std::exception &)
    {
        failed = true; // reported or ended already
    }
}

void
note_effect(const std::string &what)
{
    effect = what;
}

void
note_doubt(const std::string &what)
{
    effect += (effect.empty() ? "" : " ") + ("It is not known whether " + what + ".");
}

const std::string &
noted_effect()
{
    return effect;
}

} // namespace outbox::ctl
