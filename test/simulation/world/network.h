// What is on its way between producers and brokers.
#pragma once

#include "cluster.h"

#include <list>

namespace outbox::sim
{

// Hears the answer to what it has sent.
class Sender
{
public:
    virtual ~Sender() = default;
    virtual void answered(std::uint64_t request, Answer answer) = 0;
    // A broker has broken the connection.
    virtual void disconnected(int broker) = 0;
};

// Each sender has a connection to each broker, on which requests arrive, and are answered, in
// order. A request whose sender has gone, or has given it up, may arrive all the same, however
// late: that is what a broker does that had hung.
class Network
{
public:
    Network(SimClock &clock, Random &random, Trace &trace, Cluster &cluster)
        : clock_(clock), random_(random), trace_(trace), cluster_(cluster)
    {
    }

    // Returns the number of the request, of which the answer comes so much later than others.
    std::uint64_t send(Sender &sender, int broker, const Batch &batch, Time later = 0);
    // The sender does not wait for an answer any more; what it has sent may arrive, or may not.
    void forget(Sender &sender, std::uint64_t request);
    void forget_all(Sender &sender);

    void advance();
    Time next_event_at() const;
    std::size_t on_its_way() const noexcept { return flights_.size(); }
    // No sender waits for these.
    std::size_t stray() const noexcept;

private:
    struct Flight
    {
        std::uint64_t number;
        Sender *sender; // null: nobody waits for an answer
        int broker;
        Batch batch;
        Time sent;
        Time arrives;
        bool arrived;
        Answer answer;
        Time answers;
    };

    void arrive(Flight &flight);
    bool step(Flight &flight);
    void lose_connection(Sender &sender, int broker);
    void let_go(Flight &flight);

    SimClock &clock_;
    Random &random_;
    Trace &trace_;
    Cluster &cluster_;
    std::list<Flight> flights_; // as they were sent
    std::uint64_t next_number_ = 1;
};

} // namespace outbox::sim
