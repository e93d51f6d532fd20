// What is read from and written to a terminal.
#pragma once

#include <string>
#include <vector>

#include <termios.h>

namespace outbox::ctl
{

// Columns and lines of the terminal behind stdout; 0 when there is none.
int terminal_width();
int terminal_height();
bool stdout_is_terminal();

// Whether there is a person to ask: stdin and stderr are a terminal.
bool can_ask();

// Asks on stderr, and is true only for an answer that begins with y. Call it when can_ask().
bool ask(const std::string &question);

// Asks on the controlling terminal without an echo. Throws Error when there is none.
std::string ask_password(const std::string &prompt);

// Full-screen drawing for as long as it lives: another screen, no cursor, keys without an echo and
// line by line. The terminal is as before afterwards.
class FullScreen
{
public:
    FullScreen();
    ~FullScreen();
    FullScreen(const FullScreen &) = delete;
    FullScreen &operator=(const FullScreen &) = delete;

    // Shows these lines from the top; what does not fit is cut off.
    void draw(const std::vector<std::string> &lines) const;

    // Gives the terminal back and takes it again, around a stop by Ctrl-Z.
    void leave();
    void enter();

private:
    termios former_ = {};
    bool keys_taken_ = false;
    bool inside_ = false;
};

} // namespace outbox::ctl
