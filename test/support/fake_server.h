// Servers that speak PostgreSQL's protocol as no server should.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "listener.h"

namespace outbox::test
{

// A message of the protocol, and a string in one.
std::string message(char type, const std::string &body);
std::string text(const std::string &value);

// ErrorResponse; or, with type 'N', a notice.
std::string report(const std::string &severity, const std::string &sqlstate,
                   const std::string &words, char type = 'E');

// An answer of one row, or of none. Types are PostgreSQL's numbers.
struct Column
{
    std::string name;
    int type = 25;
    std::string value;
};
std::string one_row(const std::vector<Column> &columns);
std::string no_row(const std::vector<Column> &columns);

// outboxctl asks first whether the extension is there, in its own schema; that it is.
bool asks_for_extension(const std::string &sql);
std::string extension_is_there();

extern const std::string kLetIn; // and the parameters that matter
extern const std::string kReady;

// What a client says, one message after the other.
class Conversation
{
public:
    Conversation(int client, const std::atomic<bool> &ended) : client_(client), ended_(ended) {}

    bool say(const std::string &bytes) const;
    // Says what `more` gives for 0, 1, 2 and so on, until the client is gone or the server ends;
    // with a pause, each for itself.
    void flood(const std::function<std::string(int)> &more, int pause_ms = 0) const;
    // What it begins with, without the length. Empty at the end.
    std::string startup() const;
    // The type and the body; false at the end. What is larger than `most` is not read: the client
    // may wait for ever.
    bool hear(char &type, std::string &body, size_t most = 1 << 30) const;
    // Whether the client has gone, or goes within this time.
    bool gone(int limit_ms = 0) const;
    // Reads no more, until the server ends: a client that goes away cannot say so.
    void go_deaf() const;
    // Lets it in, and answers each statement that has no parameters with BEGIN, each other with
    // what `answer` makes of it, until the client is gone or says more than `most`.
    void serve(const std::function<std::string(const std::string &sql)> &answer,
               size_t most = 1 << 30, const std::string &welcome = kLetIn + kReady) const;

private:
    bool receive(std::string &bytes, size_t count) const;

    int client_;
    const std::atomic<bool> &ended_;
};

// Serves one client after the other.
class FakeServer
{
public:
    explicit FakeServer(std::function<void(const Conversation &)> serve);
    ~FakeServer();
    FakeServer(const FakeServer &) = delete;
    FakeServer &operator=(const FakeServer &) = delete;

    int port() const { return listener_.port(); }
    // How libpq finds it.
    std::map<std::string, std::string> environment() const;

private:
    const std::function<void(const Conversation &)> serve_;
    std::atomic<bool> ended_{false};
    const Listener listener_;
    std::thread thread_;
};

// For programs whose limits of minutes shall be there soon; with `from` only once there is that
// file.
std::map<std::string, std::string> with_fast_clock(std::map<std::string, std::string> environment,
                                                   const std::string &from = "");

} // namespace outbox::test
