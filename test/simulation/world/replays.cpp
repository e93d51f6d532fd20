#include "replays.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace outbox::sim
{

int
replay_of(const Record &record) noexcept
{
    return record.header_count == 0 ? 0 : std::atoi(std::string(record.headers[0].value).c_str());
}

const ReplayRow *
SimReplays::row_of(const ReplayRequest &request) const
{
    const auto &rows = store_.tables().replays;
    const auto found = std::find_if(rows.begin(), rows.end(),
                                    [&](const ReplayRow &row)
                                    { return row.number == std::atoi(request.id_text); });
    return found == rows.end() ? nullptr : &*found;
}

void
SimReplays::change(int number, const std::function<void(ReplayRow &)> &change)
{
    store_.begin_transaction();
    store_.statement(RelayStore::Statement::writes);
    for (ReplayRow &row : store_.change().replays)
        if (row.number == number)
            change(row);
    store_.end_transaction();
}

Replays::Found
SimReplays::look_at(const ReplayRequest &request)
{
    if (database_.is_locked(Table::events))
        return Found::locked;
    store_.statement(RelayStore::Statement::reads);
    const ReplayRow *row = row_of(request);
    return row == nullptr || row->has_ended() ? Found::cancelled : Found::running;
}

Replays::Taken
SimReplays::take(ReplayRequest &request)
{
    const auto &rows = store_.tables().replays;
    const auto next = std::find_if(rows.begin(), rows.end(),
                                   [](const ReplayRow &row) { return !row.has_ended(); });
    if (next == rows.end())
        return Taken::none;
    if (database_.is_locked(Table::events))
        return Taken::locked;
    request = ReplayRequest();
    (void) std::snprintf(request.id_text, sizeof(request.id_text), "%d", next->number);
    request.total = static_cast<std::int64_t>(next->events->size());
    request.counts = {next->published, next->refused, next->missing};
    request.rate_per_second = next->rate;
    request.begun = next->state == ReplayRow::State::running;
    change(next->number, [](ReplayRow &row) { row.state = ReplayRow::State::running; });
    return Taken::taken;
}

bool
SimReplays::save(const ReplayRequest &request, const char *ended)
{
    const ReplayRow *row = row_of(request);
    if (row == nullptr || row->has_ended() || database_.is_locked(Table::events))
        return false;
    change(row->number,
           [&](ReplayRow &changed)
           {
               changed.published = request.counts.published;
               changed.refused = request.counts.refused;
               changed.missing = request.counts.missing;
               if (ended != nullptr)
                   changed.state = std::strcmp(ended, "DONE") == 0 ? ReplayRow::State::done
                                                                   : ReplayRow::State::failed;
           });
    if (ended != nullptr)
        trace_.say("a replay has ended");
    return true;
}

bool
SimReplays::begin()
{
    if (database_.is_locked(Table::events))
        return false;
    store_.begin_transaction();
    store_.statement(RelayStore::Statement::reads);
    return true;
}

void
SimReplays::end()
{
    store_.end_transaction();
}

void
SimReplays::read_chunk(const ReplayRequest &request, std::int64_t chunk,
                       std::vector<EventNumbers> &places)
{
    places.clear();
    const ReplayRow *row = row_of(request);
    if (row == nullptr)
        return;
    const auto size = static_cast<std::int64_t>(row->events->size());
    for (std::int64_t i = chunk * kChunk; i < std::min(size, (chunk + 1) * kChunk); i++)
    {
        const EventRow &event = database_.row((*row->events)[static_cast<std::size_t>(i)]);
        places.push_back({event.seq, static_cast<std::int64_t>(event.xid), event.slot});
    }
}

} // namespace outbox::sim
