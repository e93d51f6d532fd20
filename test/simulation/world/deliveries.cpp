// The simulated table outbox.deliveries.
#include "source.h"

#include "bgworker/engine/mutant.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace outbox::sim
{

namespace
{

template <class T>
bool
contains(const std::vector<T> &all, T one)
{
    return std::find(all.begin(), all.end(), one) != all.end();
}

DeliveryRow
to_row(const Delivery &row)
{
    return {{row.seq, static_cast<std::int64_t>(row.xid), row.slot},
            row.lane,
            row.state == DeliveryState::waiting,
            row.attempts,
            row.blocking};
}

bool
blocks_lane(const Delivery &row)
{
    return row.blocking &&
           (row.state == DeliveryState::retrying || row.state == DeliveryState::failed);
}

// Behind another one that blocks its lane.
bool
is_behind_another(const Delivery &row, const DeliveryRows &rows)
{
    if (!row.blocking || OUTBOX_MUTANT(tries_behind_failed))
        return false;
    for (const auto &[seq, other] : rows)
        if (seq < row.seq && other.lane == row.lane && blocks_lane(other))
            return true;
    return false;
}

} // namespace

Delivery
SimSource::make_row(const Event &event, Lane lane) const
{
    Delivery row;
    row.seq = event.numbers.seq;
    row.xid = static_cast<Xid>(event.numbers.xid);
    row.slot = event.numbers.slot;
    std::memcpy(&row.event, event.id.data(), sizeof(row.event));
    row.lane = lane;
    row.topic = event.topic;
    row.key = event.key;
    return row;
}

void
SimSource::add_waiting(const Event &event, Lane lane)
{
    store_.statement(RelayStore::Statement::sets_aside);
    const Delivery row = make_row(event, lane);
    if (!store_.change().change_deliveries().insert(row).second)
        return;
    written_ = true;
    trace_.say("event %d is set aside: it waits in lane %llx", row.event,
               static_cast<unsigned long long>(lane));
}

Written
SimSource::add_refused(const Event &event, Lane lane, const RefusalNote &note)
{
    store_.statement(RelayStore::Statement::sets_aside);
    if (!store_.may_change(event.numbers.seq))
        return Written::kept;
    auto &rows = store_.change().change_deliveries();
    const auto [found, is_new] = rows.insert(make_row(event, lane));
    Delivery &row = found->second;
    if (!is_new && row.state == DeliveryState::discarded)
        return Written::kept;
    row.lane = lane;
    row.topic = event.topic;
    row.blocking = note.blocking;
    row.attempts++;
    const bool failed = note.max_attempts > 0 && row.attempts >= note.max_attempts;
    row.state = failed ? DeliveryState::failed : DeliveryState::retrying;
    row.next_attempt_at = failed ? 0 : note.next_attempt_at;
    written_ = true;
    trace_.say("event %d is set aside: refused (%s), %s, lane %llx%s", row.event, note.failure.name,
               failed ? "FAILED" : "to be retried", static_cast<unsigned long long>(lane),
               note.blocking ? ", which waits" : "");
    return failed ? Written::failed : Written::retrying;
}

void
SimSource::due(Time now, const std::vector<std::int64_t> &left_out,
               const std::vector<Lane> &lanes_left_out, int count, std::vector<DeliveryRow> &rows)
{
    store_.statement(RelayStore::Statement::reads);
    std::vector<const Delivery *> found;
    for (const auto &[seq, row] : store_.tables().deliveries())
        if (row.state == DeliveryState::retrying && row.next_attempt_at <= now &&
            !contains(left_out, seq) && store_.may_change(seq) &&
            (!row.blocking || !contains(lanes_left_out, row.lane)) &&
            !is_behind_another(row, store_.tables().deliveries()))
            found.push_back(&row);
    std::stable_sort(found.begin(), found.end(),
                     [](const Delivery *a, const Delivery *b)
                     { return a->next_attempt_at < b->next_attempt_at; });
    rows.clear();
    for (const Delivery *row : found)
        if (static_cast<int>(rows.size()) < count)
            rows.push_back(to_row(*row));
}

Time
SimSource::next_due_at(const std::vector<std::int64_t> &left_out,
                       const std::vector<Lane> &lanes_left_out)
{
    store_.statement(RelayStore::Statement::reads);
    Time next = 0;
    for (const auto &[seq, row] : store_.tables().deliveries())
        if (row.state == DeliveryState::retrying && !contains(left_out, seq) &&
            (!row.blocking || !contains(lanes_left_out, row.lane)) &&
            !is_behind_another(row, store_.tables().deliveries()) &&
            (next == 0 || row.next_attempt_at < next))
            next = row.next_attempt_at;
    return next;
}

bool
SimSource::first_before(Lane lane, std::int64_t before, const std::vector<std::int64_t> &left_out,
                        DeliveryRow &result)
{
    store_.statement(RelayStore::Statement::reads);
    for (const auto &[seq, row] : store_.tables().deliveries())
    {
        if (seq >= before)
            return false;
        if (row.lane != lane || contains(left_out, seq) ||
            (row.state != DeliveryState::waiting &&
             !(row.blocking && row.state == DeliveryState::retrying)))
            continue;
        result = to_row(row);
        return true;
    }
    return false;
}

void
SimSource::waiting_of(Lane lane, std::int64_t after, const std::vector<std::int64_t> &left_out,
                      int count, std::vector<DeliveryRow> &rows)
{
    store_.statement(RelayStore::Statement::reads);
    rows.clear();
    for (const auto &[seq, row] : store_.tables().deliveries())
        if (row.lane == lane && row.state == DeliveryState::waiting && seq > after &&
            !contains(left_out, seq) && static_cast<int>(rows.size()) < count)
            rows.push_back(to_row(row));
}

void
SimSource::make_heads_due(std::string_view topic, Time now)
{
    store_.statement(RelayStore::Statement::sets_aside);
    for (auto &[seq, row] : store_.change().change_deliveries())
        if (row.state == DeliveryState::retrying && row.blocking && row.topic == topic &&
            row.lane != key_lane(row.topic, row.key))
            row.next_attempt_at = std::min(row.next_attempt_at, now);
}

std::int64_t
SimSource::last_seq()
{
    const auto &rows = store_.tables().deliveries();
    return rows.empty() ? std::numeric_limits<std::int64_t>::min() : rows.back().first;
}

bool
SimSource::has_row(const Event &event)
{
    store_.statement(RelayStore::Statement::reads);
    return store_.tables().deliveries().count(event.numbers.seq) > 0;
}

bool
SimSource::has_behind(Lane lane, std::int64_t seq)
{
    store_.statement(RelayStore::Statement::reads);
    const auto &rows = store_.tables().deliveries();
    return std::any_of(rows.upper_bound(seq), rows.end(),
                       [&](const auto &item)
                       {
                           const Delivery &row = item.second;
                           return row.lane == lane &&
                                  (row.state == DeliveryState::waiting || blocks_lane(row));
                       });
}

void
SimSource::blocked_lanes(std::vector<Lane> &lanes)
{
    store_.statement(RelayStore::Statement::reads);
    for (const auto &[seq, row] : store_.tables().deliveries())
        if (blocks_lane(row) && !contains(lanes, row.lane))
            lanes.push_back(row.lane);
}

bool
SimSource::is_lane_blocked(Lane lane)
{
    store_.statement(RelayStore::Statement::reads);
    for (const auto &[seq, row] : store_.tables().deliveries())
        if (row.lane == lane && blocks_lane(row))
            return true;
    return false;
}

void
SimSource::waiting_lanes(std::vector<Lane> &lanes)
{
    store_.statement(RelayStore::Statement::reads);
    // Together, in their order, that takes less than one by one.
    constexpr Time kTogether = 50;
    const auto count = static_cast<Time>(store_.tables().deliveries().size());
    clock_.advance(count * database_.cost_of_a_row() / kTogether);
    for (const auto &[seq, row] : store_.tables().deliveries())
        if (row.state == DeliveryState::waiting && !contains(lanes, row.lane))
            lanes.push_back(row.lane);
}

bool
SimSource::move_to_lane(std::int64_t seq, Lane lane)
{
    store_.statement(RelayStore::Statement::sets_aside);
    if (!store_.may_change(seq))
        return false;
    auto &rows = store_.change().change_deliveries();
    const auto found = rows.find(seq);
    if (found == rows.end() || (found->second.state != DeliveryState::waiting &&
                                found->second.state != DeliveryState::retrying))
        return true;
    trace_.say("event %d moves to lane %llx", found->second.event,
               static_cast<unsigned long long>(lane));
    found->second.lane = lane;
    found->second.state = DeliveryState::waiting;
    found->second.blocking = false;
    found->second.next_attempt_at = 0;
    return true;
}

bool
SimSource::rename_lane(std::int64_t seq, Lane lane)
{
    store_.statement(RelayStore::Statement::sets_aside);
    if (!store_.may_change(seq))
        return false;
    auto &rows = store_.change().change_deliveries();
    const auto found = rows.find(seq);
    if (found == rows.end() || found->second.state == DeliveryState::discarded)
        return true;
    trace_.say("event %d has its lane by another key, %llx", found->second.event,
               static_cast<unsigned long long>(lane));
    found->second.lane = lane;
    return true;
}

void
SimSource::moved_rows(std::int64_t after, const std::string_view *key, int count,
                      std::vector<MovedRow> &rows)
{
    store_.statement(RelayStore::Statement::reads);
    rows.clear();
    for (const auto &[seq, row] : store_.tables().deliveries())
        if (seq > after && row.state != DeliveryState::discarded &&
            (key == nullptr || row.key == *key) && static_cast<int>(rows.size()) < count)
            rows.push_back({to_row(row).numbers, row.topic, row.lane,
                            row.state == DeliveryState::waiting ||
                                (row.state == DeliveryState::retrying && row.blocking)});
}

void
SimSource::rows_behind(std::int64_t after, int count, std::vector<MovedRow> &rows)
{
    moved_rows(after, nullptr, count, rows);
}

void
SimSource::rows_of_key(std::string_view key, std::int64_t after, int count,
                       std::vector<MovedRow> &rows)
{
    moved_rows(after, &key, count, rows);
}

bool
SimSource::move_to_topic(std::int64_t seq, std::string_view topic, Lane lane)
{
    store_.statement(RelayStore::Statement::sets_aside);
    auto &rows = store_.change().change_deliveries();
    const auto found = rows.find(seq);
    if (!store_.may_change(seq))
        return false;
    if (found == rows.end())
        return true;
    Delivery &row = found->second;
    trace_.say("event %d moves to topic %.*s", row.event, static_cast<int>(topic.size()),
               topic.data());
    const bool retrying = row.state == DeliveryState::retrying;
    row.next_attempt_at = retrying && !row.blocking ? clock_.wall() : 0;
    row.lane = lane;
    row.topic = topic;
    if (retrying && row.blocking)
        row.state = DeliveryState::waiting;
    row.blocking = row.blocking && row.state == DeliveryState::failed;
    row.attempts = row.state == DeliveryState::failed ? row.attempts : 0;
    return true;
}

std::size_t
SimSource::remove_delivered(std::vector<std::int64_t> &seqs)
{
    if (database_.is_locked(Table::position))
        return 0;
    store_.statement(RelayStore::Statement::sets_aside);
    std::vector<std::int64_t> held;
    std::size_t removed = 0;
    for (const std::int64_t seq : seqs)
        if (!store_.may_change(seq))
            held.push_back(seq);
        else if (const auto row = store_.tables().deliveries().find(seq);
                 row != store_.tables().deliveries().end() &&
                 row->second.state != DeliveryState::discarded)
            removed += store_.change().change_deliveries().erase(seq);
    seqs.swap(held);
    written_ = true;
    return removed;
}

void
SimSource::count_published(std::size_t count)
{
    store_.statement(RelayStore::Statement::writes);
    store_.change().position.published_total += static_cast<std::int64_t>(count);
}

bool
SimSource::is_paused()
{
    if (OUTBOX_MUTANT(pauses_with_default) && database_.of_default().tables().paused)
        return true;
    return store_.tables().paused;
}

} // namespace outbox::sim
