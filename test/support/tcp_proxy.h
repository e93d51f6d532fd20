#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <list>
#include <string>
#include <thread>

#include "wait.h"

namespace outbox::test
{

// Stands between clients and one server on 127.0.0.1, and is the network that fails.
class TcpProxy
{
public:
    enum class Mode
    {
        kPass,
        kDelay,     // what goes in either direction arrives later
        kNoAnswers, // what clients send arrives, and nothing comes back
        kBlackHole, // connections stay, and nothing moves
        kCut        // connections are closed, and new ones at once as well
    };

    TcpProxy();
    ~TcpProxy();
    TcpProxy(const TcpProxy &) = delete;
    TcpProxy &operator=(const TcpProxy &) = delete;

    int port() const { return port_; }
    void forward_to(int port) { target_ = port; }
    // From its return on nothing is done any more as before.
    void set(Mode mode, Milliseconds delay = Milliseconds(0));
    // Closes the connection of a client that sends this, in one piece, as often as that. Before the
    // first connection.
    void cut_at(const std::string &text, int times);
    // How often it still would.
    int cuts_left() const { return cuts_left_; }

private:
    struct Chunk
    {
        Clock::time_point due;
        std::string bytes;
        size_t sent = 0;
    };
    struct Direction
    {
        int from = -1;
        int to = -1;
        std::deque<Chunk> waiting;
    };
    struct Connection
    {
        Direction up;
        Direction down;
    };

    void serve();
    void accept_one();
    bool receive(Direction &direction);
    bool is_to_be_cut(const Direction &up);
    bool send_due(Direction &direction);
    static void close_both(const Connection &connection);

    const int port_;
    int listener_ = -1;
    std::atomic<int> target_{0};
    std::atomic<Mode> mode_{Mode::kPass};
    std::atomic<int> delay_ms_{0};
    std::atomic<int> cuts_left_{0};
    std::string cut_at_;
    std::atomic<unsigned> turns_{0}; // that serve() has begun
    std::atomic<bool> stopping_{false};
    std::list<Connection> connections_; // of the thread
    std::thread thread_;
};

} // namespace outbox::test
