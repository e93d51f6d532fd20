// The simulated ring of partitions: which may be emptied, and what detached subscriptions miss.
// That the ring decides by snapshots and ticks alone is proven elsewhere, see
// bgworker/maintenance/partition_state.cpp; here it goes by the positions.
#include "relay_store.h"

#include "bgworker/engine/mutant.h"

#include <algorithm>

namespace outbox::sim
{

void
Database::rotate()
{
    const int next = (current_slot_ + 1) % kSlots;
    if (!index_[next].empty())
        return;
    trace_.say("new events go to slot %d", next);
    current_slot_ = next;
}

// Whether the relay has passed all events of the slot and needs no row of them.
bool
Database::has_passed(int slot, const RelayStore &store) const
{
    const RelayTables &tables = store.tables();
    return std::all_of(index_[slot].begin(), index_[slot].end(),
                       [&](const auto &entry)
                       {
                           return tables.position.from.visible(entry.first.first) &&
                                  tables.deliveries().count(entry.first.second) == 0;
                       });
}

// Of a detached subscription: what it has settled would have to move to the current slot first.
bool
Database::has_settled(int slot, const RelayStore &store) const
{
    const DeliveryRows &rows = store.tables().deliveries();
    return std::any_of(index_[slot].begin(), index_[slot].end(),
                       [&](const auto &entry)
                       {
                           const auto row = rows.find(entry.first.second);
                           return row != rows.end() &&
                                  (row->second.state == DeliveryState::failed ||
                                   row->second.state == DeliveryState::discarded);
                       });
}

bool
Database::is_replayed(int slot, const RelayStore &store) const
{
    for (const ReplayRow &replay : store.tables().replays)
        if (!replay.has_ended() && !OUTBOX_MUTANT(empties_under_replays))
            for (const int event : *replay.events)
                if (row(event).slot == slot)
                    return true;
    return false;
}

std::vector<int>
Database::replayable(const RelayStore &store, int type, std::size_t most) const
{
    const RelayTables &tables = store.tables();
    const PositionRow &position = tables.position;
    std::vector<int> found;
    for (const EventRow &event : rows_)
    {
        const bool passed = position.from.visible(event.xid) ||
                            (position.to.visible(event.xid) && event.seq <= position.last_seq);
        if (found.size() < most && passed && (type < 0 || event.type == type) &&
            fetch(static_cast<Locator>(event.number)) != nullptr &&
            tables.deliveries().count(event.seq) == 0 &&
            tables.filters.takes(event.xid, event.type))
            found.push_back(event.number);
    }
    std::sort(found.begin(), found.end(), [&](int a, int b) { return row(a).seq < row(b).seq; });
    return found;
}

// A position that a crash may take back does not count: what is emptied is flushed.
bool
Database::may_be_emptied(int slot) const
{
    for (const RelayStore *store : stores_)
    {
        if (store->in_transaction() || is_replayed(slot, *store))
            return false;
        if (store->tables().detached)
        {
            if (store->is_served() || has_settled(slot, *store))
                return false;
        }
        else if (!has_passed(slot, *store))
        {
            if (!OUTBOX_MUTANT(empties_for_the_first) || store == stores_.front())
                return false;
        }
    }
    return true;
}

// Events of its types that it has neither passed nor set aside, as maintenance/readers.cpp counts
// them.
std::int64_t
Database::count_missed(int slot, const RelayStore &store, const XidSnapshot *until) const
{
    const RelayTables &tables = store.tables();
    const PositionRow &position = tables.position;
    std::int64_t missed = 0;
    for (const auto &[numbers, event] : index_[slot])
    {
        const auto [xid, seq] = numbers;
        const bool passed =
            position.from.visible(xid) || (!OUTBOX_MUTANT(miscounts_missed) &&
                                           position.to.visible(xid) && seq <= position.last_seq);
        const bool set_aside =
            tables.deliveries().count(seq) > 0 && !OUTBOX_MUTANT(counts_set_aside_too);
        if (fetch(static_cast<Locator>(event)) != nullptr && !passed && !set_aside &&
            (until == nullptr || until->visible(xid)) && tables.filters.took(xid, row(event).type))
            missed++;
    }
    return missed;
}

std::int64_t
Database::count_left_out(const RelayStore &store, const XidSnapshot &begins) const
{
    std::int64_t left_out = 0;
    for (int slot = 0; slot < kSlots; slot++)
        left_out += count_missed(slot, store, &begins);
    return left_out;
}

// Tried again, or waiting: they go with their events.
void
Database::let_go(int slot, RelayStore &store)
{
    const std::int64_t missed = count_missed(slot, store, nullptr);
    store.write(
        [&](RelayTables &tables)
        {
            tables.missed += missed;
            for (const auto &entry : index_[slot])
                tables.missed +=
                    static_cast<std::int64_t>(tables.change_deliveries().erase(entry.first.second));
        });
}

void
Database::empty(int slot)
{
    const auto each = [&](auto &&act)
    {
        for (const auto &entry : index_[slot])
            if (alive_[static_cast<std::size_t>(entry.second)] != 0)
                act(entry.second);
    };
    each([&](int event) { fate_.removed(event); });
    for (RelayStore *store : stores_)
        if (store->tables().detached)
            let_go(slot, *store);
    flush_log(next_lsn_);
    each([&](int event) { alive_[static_cast<std::size_t>(event)] = 0; });
    index_[slot].clear();
}

bool
Database::empty_one_slot()
{
    for (int slot = 0; slot < kSlots; slot++)
    {
        if (slot == current_slot_ || index_[slot].empty())
            continue;
        const bool runs =
            std::any_of(index_[slot].begin(), index_[slot].end(),
                        [&](const auto &entry) { return running_.count(entry.first.first) > 0; });
        if (runs || !may_be_emptied(slot))
            continue;
        trace_.say("slot %d is emptied", slot);
        empty(slot);
        return true;
    }
    return false;
}

// Whether a subscription holds events of a slot back that `default` has passed, and had published
// before this time.
bool
Database::holds_since(const RelayStore &store, Time time) const
{
    const auto tick = std::find_if(ticks_.rbegin(), ticks_.rend(),
                                   [&](const auto &item) { return item.first <= time; });
    if (tick == ticks_.rend())
        return false;
    const RelayTables &tables = store.tables();
    for (int slot = 0; slot < kSlots; slot++)
        if (slot != current_slot_ && has_passed(slot, *stores_.front()))
            for (const auto &entry : index_[slot])
                if (tick->second.visible(entry.first.first) &&
                    (!tables.position.from.visible(entry.first.first) ||
                     tables.deliveries().count(entry.first.second) > 0))
                    return true;
    return false;
}

} // namespace outbox::sim
