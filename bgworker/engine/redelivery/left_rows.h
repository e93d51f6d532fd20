// The rows that are still to follow a change of routes.
#pragma once

#include "bgworker/engine/event.h"
#include "bgworker/engine/common/lanes.h"
#include "bgworker/engine/mutant.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

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
        Lane lane = 0; // that it goes to
    };

    bool is_empty() const noexcept { return rows_.empty(); }
    bool has(std::int64_t seq) const noexcept
    {
        return rows_.count(seq) > 0 && !OUTBOX_MUTANT(tries_left);
    }
    // Where it is to go; 0: it is not there.
    Lane lane_of(std::int64_t seq) const noexcept
    {
        const auto found = rows_.find(seq);
        return found != rows_.end() ? found->second.lane : 0;
    }
    // One that is not there yet. Throws std::bad_alloc.
    void add(const EventNumbers &numbers, Lane lane) { rows_[numbers.seq] = {numbers, lane}; }
    void remove(std::int64_t seq) noexcept { rows_.erase(seq); }
    // The next `count` of them: all have their turn. Throws std::bad_alloc.
    void next(std::size_t count, std::vector<Row> &rows)
    {
        rows.clear();
        auto turn = rows_.lower_bound(turn_);
        while (rows.size() < count && rows.size() < rows_.size())
        {
            if (turn == rows_.end())
                turn = rows_.begin();
            rows.push_back((turn++)->second);
        }
        turn_ = turn != rows_.end() ? turn->first : kLowestSeq;
    }

private:
    std::map<std::int64_t, Row> rows_;
    std::int64_t turn_ = kLowestSeq; // whose it is
};

} // namespace outbox
