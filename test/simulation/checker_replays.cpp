// Replays: they send what was published before, in order for each key, and all of it.
#include "checker.h"

#include <algorithm>

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
    const Seq seq = database_->row(message.event).seq;
    Seq &last = replay.last[{place.topic, message.key}];
    if (seq < last && !order_excused_)
        fail("replay", name + " is behind later ones of its key in a replay");
    last = std::max(last, seq);
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
        if (arrived < row.published)
            fail("replay", name + " says that more was published than has arrived");
    }
}

} // namespace outbox::sim
