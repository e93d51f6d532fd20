// Replays: published events go to Kafka once more, behind everything that is new.
#pragma once

#include "replay_list.h"
#include "replay_row.h"
#include "replay_sending.h"
#include "replay_sink.h"

#include "bgworker/engine/world.h"

namespace outbox
{

// One replay at a time, with a sink of its own: what Kafka refuses of it ends that one, and new
// events are never in a queue, a batch or under a suspicion together with old ones.
//
//     none ── look(): one was asked for, or was under way when the process before ended ──▶ active
//     active ── all has gone out; too much is refused, or stuck: end(), when that is written ──▶
//     none active ── look(): it was cancelled ──▶ none
class Replay
{
public:
    explicit Replay(const World &world) noexcept;
    void configure(const FailurePolicy &policy) noexcept { policy_ = policy; }

    // A replay was asked for, or cancelled.
    void look_soon() noexcept { look_ = true; }

    struct Chance
    {
        bool may_send;            // nothing that is new waits
        Steady live_published_at; // when another event was acknowledged last
    };
    // Hears Kafka, notes how far it is, and hands over what may go. Without a transaction. Returns
    // how long to wait at most before the next call, in ms; -1: until the sink's wake-up.
    long step(const Chance &chance, Steady now);

    // The process ends: hears what there is to hear and writes it down.
    void hear() noexcept { sink_.hear(); }
    void save_now(Steady now);
    bool is_waiting() const noexcept { return sink_.is_waiting(); }
    const Failure &left() const noexcept { return sink_.left(); }
    // Closes the sink, and waits so long for its threads.
    void close(int wait_ms) noexcept { sink_.close(wait_ms); }

private:
    void look(Steady now);
    void begin_request(Steady now);
    void leave_request() noexcept;
    long advance(const Chance &chance, Steady now);
    bool save(Steady now, const char *ended);
    void end(Steady now, const char *state);
    bool watch_stuck(const Chance &chance, Steady now);

    Source &source_;
    FailurePolicy policy_;
    ReplayRow row_;
    ReplayList list_;
    ReplaySink sink_;
    ReplaySending sending_;
    bool active_ = false;
    bool look_ = true;
    Steady look_at_; // all the same

    // The first event that is not through, and since when it is the first.
    std::int64_t first_ = -1;
    Steady first_since_;
};

} // namespace outbox
