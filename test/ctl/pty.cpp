#include "pty.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utmp.h>

#include "support/process.h"

namespace outbox::test
{

namespace
{

constexpr std::size_t kMaxOutput = std::size_t{16} * 1024 * 1024;

[[noreturn]] void
become(const Words &argv, const Environment &environment, int slave, const std::string &directory)
{
    if (login_tty(slave) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 ||
        chdir(directory.c_str()) != 0 || !take_default_signals())
        _exit(126);
    for (const auto &[name, value] : environment)
        if (setenv(name.c_str(), value.c_str(), 1) != 0)
            _exit(126);
    std::vector<char *> words;
    for (const std::string &word : argv)
        words.push_back(const_cast<char *>(word.c_str()));
    words.push_back(nullptr);
    execvp(words[0], words.data());
    _exit(127);
}

} // namespace

Pty::Pty(const Words &argv, const Environment &environment, int columns, int rows)
{
    winsize size = {};
    size.ws_col = static_cast<unsigned short>(columns);
    size.ws_row = static_cast<unsigned short>(rows);
    if (openpty(&master_, &slave_, nullptr, nullptr, &size) != 0)
        throw std::runtime_error(std::string("no terminal: ") + std::strerror(errno));
    const std::string directory = run_dir();
    pid_ = fork();
    if (pid_ == 0)
    {
        close(master_);
        become(argv, environment, slave_, directory);
    }
    if (pid_ < 0)
        throw std::runtime_error(std::string("cannot fork: ") + std::strerror(errno));
    if (fcntl(master_, F_SETFL, O_NONBLOCK) != 0 || fcntl(master_, F_SETFD, FD_CLOEXEC) != 0 ||
        fcntl(slave_, F_SETFD, FD_CLOEXEC) != 0)
        throw std::runtime_error(std::string("cannot set up the terminal: ") +
                                 std::strerror(errno));
}

Pty::~Pty()
{
    if (!status_ && kill(pid_, SIGKILL) == 0)
        (void) waitpid(pid_, nullptr, 0);
    close(slave_);
    close(master_);
}

void
Pty::read_some(Milliseconds limit)
{
    pollfd watched = {master_, POLLIN, 0};
    if (poll(&watched, 1, static_cast<int>(limit.count())) <= 0)
        return;
    char buffer[4096];
    const ssize_t count = read(master_, buffer, sizeof buffer);
    if (count > 0)
        output_.append(buffer, static_cast<std::size_t>(count));
    if (output_.size() > kMaxOutput)
        throw std::runtime_error("the program writes without an end");
}

bool
Pty::shows(const std::string &text, Milliseconds limit)
{
    const auto deadline = Clock::now() + limit;
    while (output_.find(text, mark_) == std::string::npos)
    {
        if (Clock::now() >= deadline)
            return false;
        read_some(Milliseconds(20));
    }
    return true;
}

void
Pty::type(const std::string &keys) const
{
    if (write(master_, keys.data(), keys.size()) != static_cast<ssize_t>(keys.size()))
        throw std::runtime_error(std::string("cannot type: ") + std::strerror(errno));
}

void
Pty::resize(int columns, int rows) const
{
    winsize size = {};
    size.ws_col = static_cast<unsigned short>(columns);
    size.ws_row = static_cast<unsigned short>(rows);
    if (ioctl(master_, TIOCSWINSZ, &size) != 0)
        throw std::runtime_error(std::string("cannot resize: ") + std::strerror(errno));
}

void
Pty::signal(int number) const
{
    if (kill(pid_, number) != 0)
        throw std::runtime_error(std::string("cannot signal: ") + std::strerror(errno));
}

std::optional<int>
Pty::ends(Milliseconds limit)
{
    const auto deadline = Clock::now() + limit;
    while (!status_)
    {
        int status = 0;
        const pid_t ended = waitpid(pid_, &status, WNOHANG);
        if (ended == pid_)
            status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        else if (Clock::now() >= deadline)
            return std::nullopt;
        read_some(Milliseconds(10));
    }
    // What it wrote last is still in the terminal.
    for (std::size_t before = output_.size() + 1; before != output_.size();)
    {
        before = output_.size();
        read_some(Milliseconds(20));
    }
    return status_;
}

termios
Pty::settings() const
{
    termios settings = {};
    if (tcgetattr(slave_, &settings) != 0)
        throw std::runtime_error(std::string("cannot look at the terminal: ") +
                                 std::strerror(errno));
    return settings;
}

bool
same(const termios &a, const termios &b)
{
    return a.c_iflag == b.c_iflag && a.c_oflag == b.c_oflag && a.c_cflag == b.c_cflag &&
           a.c_lflag == b.c_lflag && std::memcmp(a.c_cc, b.c_cc, sizeof a.c_cc) == 0;
}

} // namespace outbox::test
