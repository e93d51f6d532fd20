// The rows that the process before has left where events that are read again do not see them.
#pragma once

#include "lines.h"

#include "bgworker/engine/common/xid_snapshot.h"
#include "bgworker/engine/deliveries.h"
#include "bgworker/engine/event.h"

#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace outbox
{

// An event that is read again after a start may have a row, and so its place; or rows of its key
// may be behind it, and then it joins their line, whatever else it would have to wait for. Which
// partition the keys go to whose events are in its line is kept, as a topic that is gone does not
// tell: only of events that are read again, so no more than the process before had read ahead of
// its position.
class RowsAtStart
{
public:
    RowsAtStart(Deliveries &deliveries, const Lines &lines) noexcept
        : deliveries_(deliveries), lines_(lines)
    {
    }

    // Nothing that this sees is read again.
    void begin(XidSnapshot passed) noexcept { passed_ = std::move(passed); }
    void end() noexcept
    {
        ended_ = true;
        keys_ = {};
    }
    // The lines are read from the table.
    void read();
    // Whether an event has a row since before they were last read.
    bool has(const Event &event) const;
    // The line in which rows that were there before are behind one of their key that has none, or
    // will be; 0: there are none.
    Lane line_behind(const Event &event) const;
    // What the stream meets after a start may belong before those of the table: up to here.
    std::int64_t last() const noexcept { return last_; }

    // All have been looked at.
    void know() noexcept
    {
        known_ = true;
        own_ = {};
    }
    // This process sets an event of the key aside, whose rows were looked at before: that one has
    // its place by its tag. Were it noted as well, one event of the key would join it, and an
    // earlier one that went to the topic's line before would not have. Throws std::bad_alloc.
    void set_aside(Lane key)
    {
        if (!known_ && !ended_)
            own_.insert(key);
    }
    // A row of this key is in the line of this partition. Returns whether it is the first that is.
    // Throws std::bad_alloc.
    bool note(Lane key, Lane partition, const EventNumbers &numbers)
    {
        return !known_ && own_.count(key) == 0 && add(key, partition, numbers);
    }
    // A row of this key will follow into that's line: a person holds it. What is before it goes
    // there, too. Throws std::bad_alloc.
    void note_left(Lane key, const EventNumbers &numbers) { (void) add(key, key, numbers); }
    // The line of the partition in which rows of the key are; 0: there is none.
    Lane partition_of(Lane key) const noexcept
    {
        const auto found = keys_.find(key);
        return found != keys_.end() && found->second.lane != key ? found->second.lane : 0;
    }

private:
    struct Rows
    {
        Lane lane;
        std::int64_t last;
    };

    bool add(Lane key, Lane lane, const EventNumbers &numbers);

    Deliveries &deliveries_;
    const Lines &lines_;
    XidSnapshot passed_;
    bool known_ = false;
    bool ended_ = false;
    std::int64_t up_to_ = kHighestSeq; // when the table was last read
    std::int64_t last_ = kHighestSeq;  // when it was first
    std::unordered_map<Lane, Rows> keys_;
    std::unordered_set<Lane> own_; // keys, until all rows have been looked at
};

} // namespace outbox
