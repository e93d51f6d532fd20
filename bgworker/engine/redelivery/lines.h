// The lines in outbox.deliveries, as this process knows them.
#pragma once

#include "agenda.h"

#include "bgworker/engine/common/lanes.h"
#include "bgworker/engine/common/progress.h"
#include "bgworker/engine/deliveries.h"
#include "bgworker/engine/mutant.h"

#include <cstddef>
#include <vector>

namespace outbox
{

// What redelivery has on its way at most.
constexpr std::size_t kMostRedelivered = 2048;

// Who goes before whom. An event may wait behind its key, its partition, or its whole topic. Of a
// key's events those in the line of the key came before those in the line of the partition, and
// those before those in the line of the topic.
//
//     clear ── an event is refused, or set aside while it is afloat ──▶ blocked
//     clear ── rows wait that nothing blocks, as after a start ──▶ releasing
//     blocked ── its head is published, settled, or in another line ──▶ releasing
//     releasing ── nothing waits any more, the last of it is on its way ──▶ closing
//     closing ── all of it is acknowledged ──▶ clear
//     closing ── something has joined it, or half a second is over ──▶ releasing
//     releasing, closing ── an event of it is refused ──▶ blocked
//
// A line that stops being clear gets a barrier, whatever made it known: the stream's producer may
// have earlier events of it, so all that it has then comes first.
class Lines
{
public:
    Lines(Deliveries &deliveries, const Progress &stream, Agenda &agenda)
        : deliveries_(deliveries), stream_(stream), agenda_(agenda)
    {
        recheck_.reserve(kMostRedelivered);
    }

    // Whether an event of this lane has to wait: in the table, or in memory as its line ends just
    // now.
    enum class Wait
    {
        none,
        aside,
        hold
    };
    Wait wait_of(Lane lane) const noexcept
    {
        const Lanes::State state = lanes_.state(lane);
        return state == Lanes::State::clear ? Wait::none
               : state == Lanes::State::closing
                   ? (OUTBOX_MUTANT(opens_closing_lane) ? Wait::none : Wait::hold)
                   : Wait::aside;
    }
    // Whether the lane has had a line since before an event of the stream got its tag: all of that
    // is earlier. Otherwise all of it is later.
    bool is_before(Lane lane, std::uint64_t tag) const noexcept;
    // The lane in which an event of the stream has to wait; 0: none. It joins the widest of those
    // that are before it; if none is, the narrowest. What has joined the topic's line unplaced is
    // before it as well, whenever that began.
    Lane lane_of(Lane topic, Lane partition, Lane key, std::uint64_t tag) const noexcept;

    bool is_empty() const noexcept { return lanes_.size() == 0; }
    // Those being closed included.
    std::size_t releasing() const noexcept { return lanes_.releasing(); }
    bool is_clear(Lane lane) const noexcept { return is_in(lane, Lanes::State::clear); }
    bool is_blocked(Lane lane) const noexcept { return is_in(lane, Lanes::State::blocked); }
    Line *find(Lane lane) noexcept { return lanes_.find(lane); }
    const std::unordered_map<Lane, Line> &all() const noexcept { return lanes_.all(); }

    // The transitions.
    void block(Lane lane) { lanes_.block(lane, barrier()); }
    void release(Lane lane) { lanes_.release(lane, barrier()); }
    // What it has comes from another one, a wider one: it is before the same events of the stream,
    // and behind the same.
    void release_part(Lane lane, Lane from);
    void close(Line &line, Steady now) noexcept { lanes_.close(line, now); }
    void clear(Lane lane) noexcept
    {
        lanes_.clear(lane);
        agenda_.stir();
    }

    // An event has joined the line, if there is one.
    void join(Lane lane, std::int64_t seq) noexcept;
    // An event of the stream is in its topic's line, as nobody knows its partition.
    void note_unplaced(Lane topic, std::uint64_t tag) noexcept;
    // So many events of a partition were refused together: one of them is the culprit.
    void isolate(Lane lane, std::size_t suspects);
    // All lines begin at their first row again, and nothing of them is on its way.
    void begin_again() noexcept;
    // Nothing goes out for a while, and nothing is to be held in memory for so long.
    void open_closing() noexcept { lanes_.open_closing(); }

    // Something of the line is afloat: in the stream's producer although it was set aside. Until
    // that is not so any more the line stays blocked.
    void set_afloat(Lane lane);
    void land(Lane lane) noexcept;
    std::size_t afloat() const noexcept { return afloat_; }

    // Whether anything of the line may go out: all that the stream had sent before its barrier is
    // acknowledged, and nothing is afloat.
    bool is_ready(const Line &line, std::uint64_t first_tag) noexcept;
    // Some wait for the stream's producer. Nothing reports that a barrier is passed.
    bool waits_for_stream() const noexcept { return awaited_tag_ != UINT64_MAX; }
    bool has_passed_barrier(std::uint64_t first_tag) const noexcept
    {
        return awaited_tag_ <= first_tag;
    }
    void pass_barrier() noexcept
    {
        awaited_tag_ = UINT64_MAX;
        agenda_.find_due();
    }

    // The head of the line may be gone. The table says whether another one blocks it. Reports of
    // deliveries call this: see reserve().
    void recheck(Lane lane) { recheck_.push_back(lane); }
    // Does so for all of these.
    void recheck_heads();
    // A person holds what was tried. That blocks nothing by itself; but it is not tried again at
    // once, and it may stand in its line as it did before.
    void keep_back(Lane lane);
    const std::vector<Lane> &kept_back() const noexcept { return kept_back_; }
    void recheck_kept_back(Steady now);
    // Makes room for what reports of deliveries add.
    void reserve() { recheck_.reserve(recheck_.size() + 2 * (kMostRedelivered + afloat_) + 1); }

    // From the table: which lanes are blocked, and in which rows wait.
    void load_blocked();
    void load_waiting();

private:
    bool has_unplaced_before(Lane topic, std::uint64_t tag) const noexcept;
    bool is_in(Lane lane, Lanes::State state) const noexcept { return lanes_.state(lane) == state; }
    std::uint64_t barrier() const noexcept
    {
        return OUTBOX_MUTANT(lacks_barrier) ? 0 : stream_.next_tag();
    }

    Deliveries &deliveries_;
    const Progress &stream_;
    Agenda &agenda_;
    Lanes lanes_;
    std::size_t afloat_ = 0;
    std::uint64_t awaited_tag_ = UINT64_MAX; // the lowest barrier that is not passed
    std::vector<Lane> recheck_;
    std::vector<Lane> kept_back_;
    Steady rechecked_at_; // what was kept back
    std::vector<Lane> loaded_;
};

} // namespace outbox
