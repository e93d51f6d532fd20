// Replays: they send what was published before, in order for each key, and all of it.
#include "checker.h"

#include <algorithm>
#include <utility>

namespace outbox::sim
{

void
Checker::replayed(const Place &place, const Message &message)
{
    const auto &rows = store_->tables().replays;
    const auto row =
        std::find_if(rows.begin(), rows.end(),
                     [&](const ReplayRow &one) { return one.number == message.replay; });
    const std::string name = "event " + std::to_string(message.event);
    if (row == rows.end() ||
        std::find(row->events->begin(), row->events->end(), message.event) == row->events->end())
        return fail("replay", name + " is sent by a replay that does not have it");
    Replayed &replay = replays_[message.replay];
    if (!replay.events.insert(message.event).second)
        return; // its answer was lost, or had not been written down
    check_replay_order(place, message, replay);
}

bool
Checker::was_routed(int type, const Replayed &since) const
{
    const auto routed = routed_types_.find(type);
    return routed != routed_types_.end() && routed->second > since.begun_stamp;
}

// Events of two types may come together by a change of routes that falls into the replay.
void
Checker::check_replay_order(const Place &place, const Message &message, Replayed &replay)
{
    if (replay.tried.count(message.event) > 0)
        return;
    const EventRow &row = database_->row(message.event);
    std::map<int, Seq> &last = replay.last[{place.topic, message.key}];
    for (const auto &[type, seq] : last)
    {
        const bool together =
            type == row.type || (!was_routed(type, replay) && !was_routed(row.type, replay));
        if (row.seq < seq && together && !order_excused_)
            fail("replay", "event " + std::to_string(message.event) +
                               " is behind later ones of its key in a replay");
    }
    last[row.type] = std::max(last[row.type], row.seq);
}

// A person who cancels one tells the relay.
void
Checker::replay_hands_over(int event)
{
    const std::string name = "event " + std::to_string(event) + " of a replay";
    check_may_send(name);
    const auto &rows = store_->tables().replays;
    const auto running =
        std::find_if(rows.begin(), rows.end(),
                     [](const ReplayRow &row) { return row.state == ReplayRow::State::running; });
    if (running == rows.end())
        return fail("replay", name + " is handed over, and none is under way");
    Replayed &replay = replays_[running->number];
    if (!std::exchange(replay.begun, true))
        replay.begun_stamp = stamp_;
    replay.handed.insert(event);
}

void
Checker::replay_acknowledged(int event)
{
    for (const ReplayRow &row : store_->tables().replays)
        if (row.state == ReplayRow::State::running)
            replays_[row.number].heard.insert(event);
}

// The relay has ended in order: it continues behind what was acknowledged. When the disk was full
// its row may not be due again yet.
void
Checker::check_replays_written()
{
    if (undisturbed_since_ > clock_.at())
        return;
    for (const ReplayRow &row : store_->tables().replays)
    {
        const auto done = static_cast<std::size_t>(row.published + row.refused + row.missing);
        if (row.state == ReplayRow::State::running && done < row.events->size() &&
            replays_[row.number].heard.count((*row.events)[done]) > 0)
            fail("replay", "replay " + std::to_string(row.number) +
                               " sends what was acknowledged again, as it was not written down");
    }
}

bool
Checker::replays_done() const
{
    if (store_ == nullptr)
        return true;
    const auto &rows = store_->tables().replays;
    return std::all_of(rows.begin(), rows.end(),
                       [](const ReplayRow &row) { return row.has_ended(); });
}

bool
Checker::is_refusable(int event) const
{
    const EventRow &row = database_->row(event);
    return row.invalid || row.bytes > smallest_limit_ ||
           facts_[static_cast<std::size_t>(event)].unreadable;
}

void
Checker::check_replays()
{
    for (const ReplayRow &row : store_->tables().replays)
    {
        const std::string name = "replay " + std::to_string(row.number);
        const auto size = static_cast<std::int64_t>(row.events->size());
        const auto arrived = static_cast<std::int64_t>(replays_[row.number].events.size());
        if (!row.has_ended())
            fail("replay", name + " has not ended, although all was well for long");
        if (row.missing > 0)
            fail("replay", name + " did not find events that it was to send");
        if (row.state == ReplayRow::State::done && row.published + row.refused != size)
            fail("replay", name + " is done, and has not sent all of its events");
        const auto refusable = std::count_if(row.events->begin(), row.events->end(),
                                             [&](int event) { return is_refusable(event); });
        if (row.refused > refusable && !topics_refuse_)
            fail("replay", name + " says that more was refused than could be");
        if (arrived < row.published)
            fail("replay", name + " says that more was published than has arrived");
    }
}

} // namespace outbox::sim
