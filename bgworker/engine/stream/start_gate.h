// When redelivery may begin.
#pragma once

#include "bgworker/engine/mutant.h"

#include <cstdint>

namespace outbox
{

// Redelivery sends nothing before the stream has passed what the process before may have had on its
// way: what is in the first window, and of the next one what comes before the last event that was
// set aside.
//
//     reading ── all of that was read ──▶ waiting ── it is acknowledged, or set aside ──▶ open
class StartGate
{
public:
    bool is_open() const noexcept
    {
        return state_ == State::open || OUTBOX_MUTANT(redelivers_at_once);
    }

    // Returns true when it opens. `read`: nothing of what the process before had is left to read.
    bool watch(bool read, std::uint64_t next_tag, std::uint64_t first_tag) noexcept
    {
        if (state_ == State::reading && read)
        {
            state_ = State::waiting;
            tag_ = next_tag;
        }
        if (state_ != State::waiting || first_tag < tag_)
            return false;
        state_ = State::open;
        return true;
    }

private:
    enum class State : unsigned char
    {
        reading,
        waiting,
        open
    };

    State state_ = State::reading;
    std::uint64_t tag_ = 0; // what is before it is waited for
};

} // namespace outbox
