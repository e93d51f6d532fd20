// What the sink has and the destination does not acknowledge, while other events are.
#pragma once

#include "bgworker/engine/redelivery/redelivery.h"

#include <unordered_map>

namespace outbox
{

// A broker that hangs, or a leader that went away when records were queued, may keep them for
// minutes. They stay where they are: they may have arrived already, and they go out in order when
// it answers. But they hold up the position, and so all who wait for it. So after a second they are
// set aside in outbox.deliveries as well, with the lane of their partition. From then on they are
// afloat: the row goes with the acknowledgement; if the sink gives them up, redelivery sends them.
//
//     in flight ── a second without an acknowledgement of its partition ──▶ stuck ── set aside ──▶
//     afloat ── acknowledged, or given up: land() ──▶ landed
class Stuck
{
public:
    Stuck(const World &world, Progress &progress, Redelivery &redelivery) noexcept
        : source_(world.source), clock_(world.clock), progress_(progress), redelivery_(redelivery)
    {
    }

    // An event of the stream was acknowledged.
    void note_acknowledged(Steady now) noexcept { acknowledged_at_ = now; }

    // Not in a step. `failing`: nothing gets through, so nothing is stuck by itself. `waited_for`:
    // others wait for what is in flight: there is no room for them, or they come after it.
    void watch(Steady now, bool failing, bool waited_for, Sink &sink);
    // All goes to another sink. `unanswered`: the one before has not heard of some of it until its
    // end, which was put off for that. That, and what has waited for half of its time already, is
    // not waited for as long again, for a second.
    void restart_watch(Steady now, bool unanswered) noexcept;
    // Whether nothing is acknowledged for long while the sink has what is afloat, of several
    // partitions or, if `alone`, of one: it may be that which keeps it from sending the rest.
    bool holds_up_sink(Steady now, bool alone) const noexcept;

    // Whether that waiting is shortened.
    bool is_hurried(Steady now) const noexcept { return now < hurried_until_; }
    bool has_work() const noexcept { return !partitions_.empty(); }
    // In a step. Returns true when there is more to do at once.
    bool set_some_aside(Steady now, const FailurePolicy &policy);

    // The step has ended; or was rolled back: what it has set aside is not afloat.
    void committed() noexcept { fresh_.clear(); }
    void rolled_back() noexcept;

    // Events that are afloat.
    std::size_t afloat() const noexcept { return afloat_.size(); }
    // And of their records.
    std::size_t afloat_bytes() const noexcept { return afloat_bytes_; }
    // One of them was acknowledged, or given up: tells of it in *event, if given. Nothing happens
    // for others, and it returns false.
    bool land(std::uint64_t tag, bool was_published, Acknowledged *event = nullptr) noexcept;
    // All of them were given up, with the sink.
    void sink() noexcept;
    // How many were published.
    std::uint64_t landed() const noexcept { return landed_; }

private:
    struct Afloat
    {
        std::int64_t seq;
        Lane lane; // in which it is set aside
        Lane partition;
        Acknowledged event;
    };

    void note_first(Steady now) noexcept;
    int patience_ms(Steady now) const noexcept;
    void find(Steady now, const Sink &sink);
    void set_aside(std::uint64_t tag, const Failure &why, const FailurePolicy &policy);
    void forget_partitions() noexcept;

    Source &source_;
    Clock &clock_;
    Progress &progress_;
    Redelivery &redelivery_;
    std::unordered_map<std::uint64_t, Afloat> afloat_; // by tag
    std::size_t afloat_bytes_ = 0;
    std::vector<Lane> partitions_;     // that are stuck and not all set aside, ascending
    std::vector<std::uint64_t> fresh_; // tags of those in the step under way
    std::uint64_t next_ = 0;           // to be looked at, whatever was in the slices before
    std::uint64_t end_ = 0;            // those before this tag
    std::uint64_t landed_ = 0;
    Steady acknowledged_at_;
    // The first event in flight, and since when it counts as waiting; never since before the watch
    // began, or has found nothing.
    std::uint64_t first_tag_ = 0;
    Steady first_since_;
    Steady watched_since_;
    Steady hurried_until_; // never: it is not
};

} // namespace outbox
