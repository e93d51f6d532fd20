// A program in a terminal of its own.
#pragma once

#include <optional>
#include <string>

#include <sys/types.h>
#include <termios.h>

#include "ctl.h"

namespace outbox::test
{

class Pty
{
public:
    Pty(const Words &argv, const Environment &environment, int columns = 100, int rows = 30);
    ~Pty(); // kills it
    Pty(const Pty &) = delete;
    Pty &operator=(const Pty &) = delete;

    // Reads until the output since the last mark() holds the text.
    bool shows(const std::string &text, Milliseconds limit = std::chrono::seconds(15));
    void mark() { mark_ = output_.size(); }
    const std::string &output() const { return output_; }

    // Types; "\3" is Ctrl-C.
    void type(const std::string &keys) const;
    void resize(int columns, int rows) const;
    void signal(int number) const;

    // The exit code (128 + number for a signal) when it ends in time.
    std::optional<int> ends(Milliseconds limit);

    pid_t pid() const { return pid_; }

    // How the terminal is set; works after the program ended too.
    termios settings() const;

private:
    void read_some(Milliseconds limit);

    pid_t pid_ = -1;
    int master_ = -1;
    int slave_ = -1; // held open, so that the terminal outlives the program
    std::string output_;
    std::size_t mark_ = 0;
    std::optional<int> status_;
};

// Whether two terminals are set alike.
bool same(const termios &a, const termios &b);

} // namespace outbox::test
