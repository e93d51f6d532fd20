// The rows that are still to follow a change of routes.
#pragma once

#include "bgworker/engine/event.h"
#include "bgworker/engine/common/lanes.h"
#include "bgworker/engine/mutant.h"

#include <cstddef>
#include <cstdint>
#include <map>

namespace outbox
{

// A person held them when the others moved. Where they are they belong no more, so none of them is
// tried before it has moved: there is never a result of one that would be written to the line that
// it was in, while the line that it has moved to goes out.
class LeftRows
{
public:
    struct Row
    {
        EventNumbers numbers;
        Lane from = 0; // where it is
        Lane lane = 0; // that it goes to
    };

    bool is_empty() const noexcept { return rows_.empty(); }
    bool has(std::int64_t seq) const noexcept
    {
        return rows_.count(seq) > 0 && !OUTBOX_MUTANT(tries_left);
    }
    // One with no lane: it is not there.
    Row find(std::int64_t seq) const noexcept
    {
        const auto found = rows_.find(seq);
        return found != rows_.end() ? found->second : Row();
    }
    std::size_t size() const noexcept { return rows_.size(); }
    // One that is not there yet. Throws std::bad_alloc.
    void add(const Row &row) { rows_[row.numbers.seq] = row; }
    void remove(std::int64_t seq) noexcept { rows_.erase(seq); }
    // The next of them, of which there are some: all have their turn.
    Row next() noexcept
    {
        auto turn = rows_.upper_bound(turn_);
        if (turn == rows_.end())
            turn = rows_.begin();
        turn_ = turn->first;
        return turn->second;
    }

private:
    std::map<std::int64_t, Row> rows_;
    std::int64_t turn_ = kLowestSeq; // who had it last
};

} // namespace outbox
