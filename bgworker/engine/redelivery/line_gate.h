// Whether a row of a line may go out to its partition now; if not, what it waits for.
#pragma once

#include "flights.h"

#include "bgworker/engine/clock.h"
#include "bgworker/engine/event.h"
#include "bgworker/engine/mutant.h"
#include "bgworker/engine/sink.h"

#include <string_view>

namespace outbox
{

// An event that goes out, or is tried, joins the narrower line when there is one; it never goes
// back to a wider one. One that only waits does not go out while a wider lane is blocked.
class LineGate final : public PartitionGate
{
public:
    // An `attempt` is of a row that is due; one that goes `alone` has its partition for itself.
    LineGate(const Lines &lines, const Flights &flights, Clock &clock, const Event &event,
             const DeliveryRow &row, bool attempt, bool alone)
        : lines_(lines), flights_(flights), clock_(clock), topic_(topic_lane(event.topic)),
          key_(key_lane(event.topic, event.key)), row_(row), attempt_(attempt), alone_(alone)
    {
    }

    bool may_pass(std::int32_t partition) const noexcept override
    {
        partition_ = partition == kKeyIsPartition ? key_ : partition_lane(topic_, partition);
        for (const Lane lane : {partition_, key_})
        {
            if (row_.lane == key_ || row_.lane == lane || lines_.is_clear(lane))
                continue;
            narrower_ = lane;
            return false;
        }
        for (const Lane lane : {topic_, partition_})
        {
            if (attempt_ || row_.lane == lane || !lines_.is_blocked(lane) ||
                OUTBOX_MUTANT(passes_wider))
                continue;
            behind_ = lane;
            return false;
        }
        if (flights_.has_room_in(partition_, alone_))
            return true;
        // Others of its topic do not wait for a partition that does not answer.
        if (row_.lane == topic_ && flights_.is_late(partition_, clock_.steady()) &&
            !OUTBOX_MUTANT(head_waits_for_partition))
            narrower_ = partition_;
        return false;
    }

    Lane partition() const noexcept { return partition_; }
    // The line to join; 0: it stays.
    Lane narrower() const noexcept { return narrower_; }
    // The wider one that it waits for; 0: it waits for the partition, or a topic.
    Lane behind() const noexcept { return behind_; }
    bool alone() const noexcept { return alone_; }

private:
    const Lines &lines_;
    const Flights &flights_;
    Clock &clock_;
    const Lane topic_;
    const Lane key_;
    const DeliveryRow &row_;
    const bool attempt_;
    const bool alone_;
    mutable Lane partition_ = 0;
    mutable Lane narrower_ = 0;
    mutable Lane behind_ = 0;
};

} // namespace outbox
