#include "transaction.h"

#include "event_numbers.h"
#include "prepared.h"

#include "extension/shared/subscription_slots.h"
#include "extension/trust/own_relations.h"

namespace outbox
{

namespace
{

// Subtransaction ids only grow within a transaction, so everything that an aborting subtransaction
// (or its children) noted is at the end of these stacks, marked with its id or a larger one.
struct EmitCount
{
    SubTransactionId subtransaction;
    uint64 events;
};

struct UsedId
{
    pg_uuid_t id;
    SubTransactionId subtransaction;
};

// In order of arrival.
struct UsedIds
{
    UsedId *ids;
    int used;
    int size;
};

// The duplicate check remembers this many ids that callers chose in one transaction (2.5 MB), and
// as many that were made (1.3 MB); beyond it, duplicates are no longer noticed.
constexpr int kMaxIds = 65536;

// All memory is in TopTransactionContext and forgotten with the transaction.
struct Ledger
{
    EmitCount *counts;
    int count_used;
    int count_size;

    UsedIds chosen;
    HTAB *chosen_set;
    UsedIds made; // each larger than the one before

    bool relay_requested;
    bool deliveries_changed;
    bool restored;
    int64 largest_restored; // number of an event
};

Ledger ledger;

void
push_count(SubTransactionId subtransaction)
{
    if (ledger.count_used == ledger.count_size)
    {
        const int size = ledger.count_size == 0 ? 8 : ledger.count_size * 2;
        const Size bytes = size * sizeof(EmitCount);
        ledger.counts = static_cast<EmitCount *>(
            ledger.counts == nullptr ? MemoryContextAlloc(TopTransactionContext, bytes)
                                     : repalloc(ledger.counts, bytes));
        ledger.count_size = size;
    }
    ledger.counts[ledger.count_used++] = {subtransaction, 0};
}

void
count_event(SubTransactionId subtransaction)
{
    if (ledger.count_used == 0 ||
        ledger.counts[ledger.count_used - 1].subtransaction != subtransaction)
        push_count(subtransaction);
    ledger.counts[ledger.count_used - 1].events++;
}

void
make_room(UsedIds *ids)
{
    if (ids->used < ids->size)
        return;
    const int size = ids->size == 0 ? 64 : ids->size * 2;
    const Size bytes = size * sizeof(UsedId);
    ids->ids =
        static_cast<UsedId *>(ids->ids == nullptr ? MemoryContextAlloc(TopTransactionContext, bytes)
                                                  : repalloc(ids->ids, bytes));
    ids->size = size;
}

bool
is_before(const pg_uuid_t &a, const pg_uuid_t &b)
{
    return memcmp(&a, &b, sizeof(a)) < 0;
}

bool
was_made(const pg_uuid_t *id)
{
    const UsedIds &made = ledger.made;
    int from = 0;
    int to = made.used;
    while (from < to)
    {
        const int middle = from + (to - from) / 2;
        if (is_before(made.ids[middle].id, *id))
            from = middle + 1;
        else
            to = middle;
    }
    return from < made.used && !is_before(*id, made.ids[from].id);
}

void
create_chosen_set()
{
    HASHCTL control = {};
    control.keysize = sizeof(pg_uuid_t);
    control.entrysize = sizeof(pg_uuid_t);
    control.hcxt = TopTransactionContext;
    ledger.chosen_set =
        hash_create("outbox chosen event ids", 64, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

void
raise_duplicate(const pg_uuid_t *id)
{
    ereport(ERROR,
            (errcode(ERRCODE_UNIQUE_VIOLATION),
             errmsg("event id %s is already used in this transaction",
                    DatumGetCString(DirectFunctionCall1(uuid_out, UUIDPGetDatum(id)))),
             errhint("Give each event an id of its own, or leave event_id out to have one made.")));
}

// No other event has it yet: it has just been made. Only a caller can choose it again.
void
remember_made_id(const pg_uuid_t *id, SubTransactionId subtransaction)
{
    UsedIds &made = ledger.made;
    if (made.used >= kMaxIds)
        return;
    make_room(&made);
    made.ids[made.used++] = {*id, subtransaction};
}

void
remember_chosen_id(const pg_uuid_t *id, SubTransactionId subtransaction)
{
    if (was_made(id))
        raise_duplicate(id);
    if (ledger.chosen_set == nullptr)
        create_chosen_set();
    bool found = false;
    UsedIds &chosen = ledger.chosen;
    if (chosen.used >= kMaxIds)
    {
        if (hash_search(ledger.chosen_set, id, HASH_FIND, &found) != nullptr)
            raise_duplicate(id);
        return;
    }
    make_room(&chosen);
    hash_search(ledger.chosen_set, id, HASH_ENTER, &found);
    if (found)
        raise_duplicate(id);
    chosen.ids[chosen.used++] = {*id, subtransaction};
}

void
forget_subtransaction(SubTransactionId subtransaction)
{
    while (ledger.count_used > 0 &&
           ledger.counts[ledger.count_used - 1].subtransaction >= subtransaction)
        ledger.count_used--;
    UsedIds &made = ledger.made;
    while (made.used > 0 && made.ids[made.used - 1].subtransaction >= subtransaction)
        made.used--;
    UsedIds &chosen = ledger.chosen;
    while (chosen.used > 0 && chosen.ids[chosen.used - 1].subtransaction >= subtransaction)
        hash_search(ledger.chosen_set, &chosen.ids[--chosen.used].id, HASH_REMOVE, nullptr);
}

// Keeps one count a nesting level, however many subtransactions commit. Needs no memory: what is
// pushed takes the place of what was popped.
void
merge_subtransaction(SubTransactionId subtransaction, SubTransactionId parent)
{
    uint64 events = 0;
    while (ledger.count_used > 0 &&
           ledger.counts[ledger.count_used - 1].subtransaction >= subtransaction)
        events += ledger.counts[--ledger.count_used].events;
    if (events == 0)
        return;
    if (ledger.count_used > 0 && ledger.counts[ledger.count_used - 1].subtransaction == parent)
        ledger.counts[ledger.count_used - 1].events += events;
    else
        ledger.counts[ledger.count_used++] = {parent, events};
}

uint64
events_so_far()
{
    uint64 events = 0;
    for (int i = 0; i < ledger.count_used; i++)
        events += ledger.counts[i].events;
    return events;
}

// Runs after the transaction has become visible. It may not raise an error, allocate or wait: an
// error here would be a PANIC, the transaction is already committed.
void
announce_commit()
{
    const uint64 events = events_so_far();
    if (events == 0 && !ledger.relay_requested && !ledger.deliveries_changed && !ledger.restored)
        return;
    if (shared_state() == nullptr)
        return;
    DatabaseSlot *slot = find_slot(MyDatabaseId);
    if (events > 0 && slot != nullptr)
    {
        pg_atomic_fetch_add_u64(&slot->emitted, static_cast<int64>(events));
        for_each_relay(*slot,
                       [](RelayEntry &relay)
                       {
                           if (awaits_events(&relay))
                               wake_relay(&relay);
                       });
    }
    if (ledger.restored && slot != nullptr)
    {
        pg_atomic_fetch_add_u32(&slot->restores, 1);
        wake_relay(&slot->relay);
    }
    if (ledger.deliveries_changed && slot != nullptr)
        for_each_relay(*slot,
                       [](RelayEntry &relay) { tell_of_deliveries(&relay, kDeliveriesChanged); });
    if (ledger.relay_requested)
        ask_for_relay(slot);
}

// What is emitted after the restore has larger numbers, so that it goes out after what was restored
// although both are in one window.
void
record_restored_numbers()
{
    if (ledger.largest_restored > 0 && OidIsValid(find_own_relation("events_seq")))
        record_numbers_to(ledger.largest_restored);
}

void
on_transaction_event(XactEvent event, void *)
{
    switch (event)
    {
    case XACT_EVENT_COMMIT:
        announce_commit();
        ledger = {};
        break;
    case XACT_EVENT_PRE_COMMIT:
        record_restored_numbers();
        break;
    case XACT_EVENT_PRE_PREPARE:
        record_restored_numbers();
        begin_prepare(events_so_far(), ledger.restored);
        break;
    case XACT_EVENT_ABORT:
    case XACT_EVENT_PREPARE: // COMMIT PREPARED wakes the relay, in whatever session it runs
        end_prepare(event == XACT_EVENT_PREPARE);
        ledger = {};
        break;
    default:
        break;
    }
}

void
on_subtransaction_event(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *)
{
    if (event == SUBXACT_EVENT_ABORT_SUB)
        forget_subtransaction(mine);
    else if (event == SUBXACT_EVENT_COMMIT_SUB)
        merge_subtransaction(mine, parent);
}

} // namespace

void
register_transaction_callbacks()
{
    RegisterXactCallback(on_transaction_event, nullptr);
    RegisterSubXactCallback(on_subtransaction_event, nullptr);
}

void
add_event(const pg_uuid_t *id, bool chosen)
{
    const SubTransactionId subtransaction = GetCurrentSubTransactionId();
    if (chosen)
        remember_chosen_id(id, subtransaction);
    else
        remember_made_id(id, subtransaction);
    count_event(subtransaction);
}

int64
events_of_transaction()
{
    return static_cast<int64>(events_so_far());
}

bool
transaction_has_emitted()
{
    return ledger.count_used > 0;
}

void
notify_relay_at_commit()
{
    ledger.deliveries_changed = true;
}

void
note_restored_rows_at_commit()
{
    ledger.restored = true;
}

void
note_restored_event_at_commit(int64 seq)
{
    // The relay refuses larger ones, see bgworker/source/position/restored_dump.cpp.
    constexpr int64 kLargest = INT64CONST(1) << 62;
    note_restored_rows_at_commit();
    if (seq <= kLargest)
        ledger.largest_restored = Max(ledger.largest_restored, seq);
}

void
request_relay_at_commit()
{
    ledger.relay_requested = true;
}

} // namespace outbox
