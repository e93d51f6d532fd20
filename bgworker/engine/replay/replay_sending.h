// How a replay's events go out: in their order, at its rate, few at a time.
#pragma once

#include "replay_list.h"
#include "replay_row.h"
#include "replay_sink.h"

#include "bgworker/engine/common/token_bucket.h"

#include <vector>

namespace outbox
{

class ReplaySending
{
public:
    static constexpr int kLockedMs = 100; // until what was locked is tried again

    ReplaySending(const World &world, ReplayRow &row, ReplayList &list, ReplaySink &sink) noexcept
        : source_(world.source), replays_(world.replays), clock_(world.clock), row_(row),
          list_(list), sink_(sink)
    {
    }

    // Another replay, with the rate that its row has.
    void begin(Steady now) noexcept;
    // Hands over what may go. Returns when to call it again, in ms; -1: after an acknowledgement.
    long send(Steady now);

private:
    enum class HandOver
    {
        next,
        full,
        locked,
        halted
    };

    HandOver hand_over_some(std::int64_t most, Steady now);
    HandOver hand_over();
    HandOver leave_out(std::int64_t place, const Failure &why) noexcept;
    bool find(std::int64_t place, Event &event);
    void fill_in(Record &record, std::int64_t place);

    Source &source_;
    Replays &replays_;
    Clock &clock_;
    ReplayRow &row_;
    ReplayList &list_;
    ReplaySink &sink_;
    TokenBucket bucket_;
    std::vector<Header> headers_;
};

} // namespace outbox
