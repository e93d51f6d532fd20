#include "terminal.h"

#include "errors.h"
#include "standard_output.h"

#include <csignal>
#include <iostream>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace outbox::ctl
{

namespace
{

constexpr int kMaxPassword = 1024;

winsize
terminal_size()
{
    winsize size = {};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
        size = {};
    return size;
}

void
write_now(const std::string &text)
{
    write_output(text);
    flush_output();
}

// Keys come one by one and without an echo for as long as it lives, Ctrl-C as a key too; other
// signals that would end us in between are held back.
class WithoutEcho
{
public:
    explicit WithoutEcho(int terminal) : terminal_(terminal)
    {
        sigset_t set;
        sigemptyset(&set);
        for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP})
            sigaddset(&set, number);
        (void) pthread_sigmask(SIG_BLOCK, &set, &former_mask_);
        changed_ = tcgetattr(terminal_, &former_) == 0;
        termios silent = former_;
        silent.c_lflag &= ~static_cast<tcflag_t>(ECHO | ISIG | ICANON);
        silent.c_cc[VMIN] = 1;
        silent.c_cc[VTIME] = 0;
        changed_ = changed_ && tcsetattr(terminal_, TCSAFLUSH, &silent) == 0;
    }
    ~WithoutEcho()
    {
        if (changed_)
            (void) tcsetattr(terminal_, TCSAFLUSH, &former_);
        (void) pthread_sigmask(SIG_SETMASK, &former_mask_, nullptr);
    }
    WithoutEcho(const WithoutEcho &) = delete;
    WithoutEcho &operator=(const WithoutEcho &) = delete;

private:
    int terminal_;
    termios former_ = {};
    sigset_t former_mask_ = {};
    bool changed_ = false;
};

// Reads keys up to the end of the line; false for Ctrl-C.
bool
read_password(int terminal, std::string &password)
{
    constexpr char kCtrlC = '\3';
    constexpr char kCtrlD = '\4';
    constexpr char kCtrlU = '\x15';
    constexpr char kErase = '\x7f';
    char key = 0;
    while (password.size() < kMaxPassword && read(terminal, &key, 1) == 1)
    {
        if (key == '\n' || key == kCtrlD)
            return true;
        if (key == kCtrlC)
            return false;
        if (key == kCtrlU)
            password.clear();
        else if (key != kErase && key != '\b')
            password += key;
        else if (!password.empty())
            password.pop_back();
    }
    return true;
}

} // namespace

int
terminal_width()
{
    return stdout_is_terminal() ? terminal_size().ws_col : 0;
}

int
terminal_height()
{
    return stdout_is_terminal() ? terminal_size().ws_row : 0;
}

bool
stdout_is_terminal()
{
    return isatty(STDOUT_FILENO) != 0;
}

bool
can_ask()
{
    return isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0;
}

bool
ask(const std::string &question)
{
    std::cerr << question << " [y/N] " << std::flush;
    std::string answer;
    return std::getline(std::cin, answer) && (answer == "y" || answer == "Y" || answer == "yes" ||
                                              answer == "Yes" || answer == "YES");
}

std::string
ask_password(const std::string &prompt)
{
    const int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC);
    if (terminal < 0)
        throw Error(kNoConnection, "the server asks for a password, and there is no terminal",
                    "Set PGPASSWORD, or put it into ~/.pgpass.");
    std::string password;
    bool given_up = false;
    {
        const WithoutEcho silent(terminal);
        (void) !write(terminal, prompt.data(), prompt.size());
        given_up = !read_password(terminal, password);
        (void) !write(terminal, "\n", 1);
    }
    (void) close(terminal);
    if (given_up)
        throw Interrupted();
    return password;
}

FullScreen::FullScreen()
{
    enter();
}

FullScreen::~FullScreen()
{
    try
    {
        leave();
    }
    catch (const std::exception &)
    {
        // The terminal is gone, and what ends us is reported.
    }
}

void
FullScreen::enter()
{
    if (inside_)
        return;
    inside_ = true;
    keys_taken_ = isatty(STDIN_FILENO) != 0 && tcgetattr(STDIN_FILENO, &former_) == 0;
    if (keys_taken_)
    {
        termios silent = former_;
        silent.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON);
        silent.c_cc[VMIN] = 0; // reading a key never waits
        silent.c_cc[VTIME] = 0;
        keys_taken_ = tcsetattr(STDIN_FILENO, TCSANOW, &silent) == 0;
    }
    // Another screen, no cursor, no wrapping of long lines.
    write_now("\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J");
}

void
FullScreen::leave()
{
    if (!inside_)
        return;
    inside_ = false;
    if (keys_taken_)
        (void) tcsetattr(STDIN_FILENO, TCSANOW, &former_);
    write_now("\x1b[?7h\x1b[?25h\x1b[?1049l");
}

void
FullScreen::draw(const std::vector<std::string> &lines) const
{
    const int height = terminal_height();
    std::string frame = "\x1b[H";
    int shown = 0;
    for (const std::string &line : lines)
    {
        if (height > 0 && shown == height)
            break;
        frame += (shown++ == 0 ? "" : "\r\n") + line + "\x1b[K";
    }
    write_now(frame + "\x1b[J");
}

} // namespace outbox::ctl
