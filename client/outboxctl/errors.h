// How outboxctl ends, and the errors that make it end so.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace outbox::ctl
{

// The exit codes; texts.cpp explains them to users.
constexpr int kOk = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kNoConnection = 3;
constexpr int kFound = 4;
constexpr int kNotReady = 5;
constexpr int kInterrupted = 130;
constexpr int kOutputGone = 141; // as a shell shows the end by SIGPIPE

// What ends a command before its time.
class Ended : public std::runtime_error
{
public:
    using std::runtime_error::runtime_error;

    // Whether it is open what became of a statement that it came in.
    virtual bool leaves_doubt() const { return false; }
};

// An error with what a reader needs to fix it; detail and hint may be empty, sqlstate too.
class Error : public Ended
{
public:
    Error(int exit_code, const std::string &message, std::string hint = "", std::string detail = "",
          std::string sqlstate = "")
        : Ended(message), exit_code_(exit_code), hint_(std::move(hint)), detail_(std::move(detail)),
          sqlstate_(std::move(sqlstate))
    {
    }
    int exit_code() const { return exit_code_; }
    const std::string &hint() const { return hint_; }
    const std::string &detail() const { return detail_; }
    const std::string &sqlstate() const { return sqlstate_; }

private:
    int exit_code_;
    std::string hint_;
    std::string detail_;
    std::string sqlstate_;
};

// The database cannot be reached, or the connection to it broke; trying again may help.
class ConnectionError : public Error
{
public:
    explicit ConnectionError(const std::string &message, const std::string &hint = "")
        : Error(kNoConnection, message, hint)
    {
    }
    bool leaves_doubt() const override { return true; }
};

// Ctrl-C, SIGTERM or SIGHUP came while we waited.
class Interrupted : public Ended
{
public:
    Interrupted() : Ended("interrupted") {}
    bool leaves_doubt() const override { return true; }
};

// The reader of our output is gone. what() is what has happened for good, empty when nothing has.
class OutputGone : public std::runtime_error
{
public:
    explicit OutputGone(const std::string &effect) : std::runtime_error(effect) {}
};

} // namespace outbox::ctl
