// The relay's process in a history: runs the engine as bgworker/relay does, and dies as processes
// do.
#pragma once

#include "checker.h"
#include "world/endpoint_sink.h"
#include "world/replays.h"
#include "world/source.h"

#include "bgworker/engine/engine.h"
#include "bgworker/engine/guarded.h"

#include <memory>
#include <vector>

namespace outbox::sim
{

// Of all topics together, and all relays of a subscription.
class SimTally final : public Tally
{
public:
    std::uint16_t topic(std::string_view) noexcept override { return 0; }
    void published(const Acknowledged &, const Moment &) noexcept override { published_++; }
    void batch(std::uint16_t, std::size_t) noexcept override {}
    void refused(std::uint16_t) noexcept override {}
    void failed(std::uint16_t) noexcept override { failed_++; }
    void retried(std::uint16_t) noexcept override {}
    void flush(bool) noexcept override {}

    std::size_t published() const noexcept { return published_; }
    std::size_t failed() const noexcept { return failed_; }

private:
    std::size_t published_ = 0;
    std::size_t failed_ = 0;
};

// Of a replay's sink: what becomes of its records says nothing of the events.
class ReplayWatch final : public ProducerWatch
{
public:
    explicit ReplayWatch(Checker &checker) noexcept : checker_(checker) {}
    void in_doubt(int) override {}
    void handed_over(int event, bool) override { checker_.replay_hands_over(event); }
    void acknowledged(int event) override { checker_.replay_acknowledged(event); }
    void drains(bool) override {}
    void refused_alone(int, bool) override {}
    void is_left() override { checker_.is_left(); }

private:
    Checker &checker_;
};

// PostgreSQL, which restarts all its processes when one is killed.
class Server
{
public:
    virtual ~Server() = default;
    virtual void crash() = 0;
};

class Relay final : public Destination
{
public:
    struct Surroundings
    {
        SimClock &clock;
        Random &random;
        Trace &trace;
        Database &database;
        RelayStore &store;
        Cluster &cluster;
        Network &network;
        Checker &checker;
        Server &server;
        // It is one of several processes that run at the same time.
        bool beside_others;
    };
    struct Settings
    {
        Engine::Limits limits;
        FailurePolicy policy;
        ProducerSettings producer;
        EndpointSettings endpoint; // if it is used, in place of producers
        bool new_lanes = false;    // at each start, as after a restore
    };

    Relay(const Surroundings &around, const Settings &settings);
    ~Relay() override;

    // Does what is due by now.
    void advance();
    Time next_event_at() const;

    bool is_running() const noexcept { return state_ == State::running; }
    bool is_down() const noexcept { return state_ == State::down; }
    // A transaction holds its row of outbox.subscriptions: none starts.
    void hold(bool held) noexcept { held_ = held; }
    std::size_t rounds() const noexcept { return rounds_; }
    // Records, by all its processes.
    std::size_t built() const noexcept { return built_ + (source_ ? source_->built() : 0); }
    // It has nothing to do, and has written so.
    bool is_idle() const;

    // What happens to it.
    void wake() noexcept { latch_ = true; } // a commit
    void tell_of_change() noexcept;         // a person's
    void restart();
    void die(); // at once
    void set_policy(const FailurePolicy &policy);
    // As with a library that is missing, a certificate that cannot be read, or too many threads.
    void set_usable(bool usable);
    bool can_open() const noexcept { return usable_ && enabled_; }

    std::unique_ptr<Sink> open(Use use, int oversized_batches, Failure &why) override;
    const char *title() const noexcept override
    {
        return settings_.endpoint.used ? "the endpoint" : "Kafka";
    }

private:
    enum class State
    {
        down,
        running,
        ending
    };
    class Handle;
    template <typename S> std::unique_ptr<Sink> hand_out(std::unique_ptr<S> sink);

    void start();
    void take_turn();
    void run_round();
    void maintain();
    void end_some();
    void stop(Time pause);
    void stop_for_destination();
    void retry_destination();
    void watch();
    bool has_news() const;
    bool may_start() const;

    const Surroundings around_;
    Settings settings_;
    State state_ = State::down;
    Time next_at_ = 0; // to start, or the next round, or the next look while it ends
    Time end_by_ = 0;
    Time busy_until_ = 0;
    bool held_ = false;
    bool usable_ = true;    // its destination
    bool enabled_ = true;   // the same, when it was opened last, for the stream
    Time retry_at_ = 0;     // then it is tried whether it is again
    bool gives_up_ = false; // after an ERROR: ends when all is written
    bool latch_ = false;
    bool look_ = true;
    StepResult told_step_ = StepResult::idle;
    bool changed_ = false;
    Time looked_at_ = 0;
    Time maintain_at_ = 0;
    std::size_t rounds_ = 0;
    std::size_t rounds_before_ = 0; // of processes that have ended
    std::size_t built_ = 0;         // the same
    ProducerId next_producer_ = 1;
    std::vector<SimSink *> sinks_;
    SimTally tally_;
    StoredBacklog backlog_; // as the process before has shown it, to this server
    SimReplays replays_;
    ReplayWatch replay_watch_;
    std::unique_ptr<SimSource> source_;
    std::unique_ptr<Guarded> pausing_;
    std::unique_ptr<Engine> engine_;
};

} // namespace outbox::sim
