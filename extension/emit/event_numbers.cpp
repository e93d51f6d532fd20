#include "event_numbers.h"

#include "extension/shared/lock_spaces.h"
#include "extension/shared/shared_state.h"
#include "extension/trust/own_relations.h"

extern "C"
{
#include "utils/fmgrprotos.h"
}

namespace outbox
{

namespace
{

// What is beyond was not counted to, but set: it is not remembered, so that it can be set back.
constexpr uint64 kLastPossible = static_cast<uint64>(1) << 62;

// CREATE EXTENSION may still be rolled back, and the numbers of the one before count again then.
bool
is_of_this_transaction(Oid sequence)
{
    Relation relation = RelationIdGetRelation(sequence);
    const bool made =
        !RelationIsValid(relation) || relation->rd_createSubid != InvalidSubTransactionId;
    if (RelationIsValid(relation))
        RelationClose(relation);
    return made;
}

// Where the largest number that is known to have been given stands; 0: none. Null: nowhere.
DatabaseSlot *
numbered_slot(Oid sequence)
{
    DatabaseSlot *slot = own_slot();
    if (slot == nullptr || pg_atomic_read_u32(&slot->numbered_by) == sequence)
        return slot;
    if (is_of_this_transaction(sequence))
        return nullptr;
    // After CREATE EXTENSION it counts from 1. Two that see that at once only forget what one of
    // them has noted meanwhile.
    pg_atomic_write_u64(&slot->largest_seq, 0);
    pg_write_barrier();
    pg_atomic_write_u32(&slot->numbered_by, sequence);
    return slot;
}

// Whether neither this number nor a larger one was given. What is recorded only grows, so one
// number is claimed by one session at most, whatever the sequence gives.
bool
claim_number(DatabaseSlot *slot, int64 seq)
{
    const uint64 given = seq > 0 ? static_cast<uint64>(seq) : 0;
    if (given > kLastPossible)
        return true;
    // Ends: it only grows, or has become large enough.
    uint64 known = pg_atomic_read_u64(&slot->largest_seq);
    while (known < given)
        if (pg_atomic_compare_exchange_u64(&slot->largest_seq, &known, given))
            return true;
    return false;
}

bool
is_after(int64 seq, uint64 largest)
{
    return seq > 0 && static_cast<uint64>(seq) > largest;
}

// As its owner: who emits has no right to the sequence. An error restores the user together with
// the rest of the transaction's state.
void
set_forward(Oid sequence, uint64 largest)
{
    HeapTuple row = SearchSysCache1(RELOID, ObjectIdGetDatum(sequence));
    if (!HeapTupleIsValid(row))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
                        errmsg("relation \"outbox.events_seq\" does not exist")));
    const Oid owner = reinterpret_cast<Form_pg_class>(GETSTRUCT(row))->relowner;
    ReleaseSysCache(row);
    Oid user;
    int context;
    GetUserIdAndSecContext(&user, &context);
    SetUserIdAndSecContext(owner, context | SECURITY_LOCAL_USERID_CHANGE);
    (void) DirectFunctionCall2(setval_oid, ObjectIdGetDatum(sequence),
                               Int64GetDatum(static_cast<int64>(largest)));
    SetUserIdAndSecContext(user, context);
}

// 0 also when the sequence has been set, and has given nothing since.
int64
last_given(Oid sequence)
{
    LOCAL_FCINFO(call, 1);
    InitFunctionCallInfoData(*call, nullptr, 1, InvalidOid, nullptr, nullptr);
    call->args[0].value = ObjectIdGetDatum(sequence);
    call->args[0].isnull = false;
    const Datum last = pg_sequence_last_value(call);
    return call->isnull ? 0 : DatumGetInt64(last);
}

// Draws up to `most` numbers until one is new. One that is not larger than the one before tells
// that the sequence was set back again, or does not ascend, and ends that.
int64
draw_until_new(Oid sequence, uint64 largest, int64 most)
{
    int64 before;
    int64 seq = -1;
    do
    {
        CHECK_FOR_INTERRUPTS();
        before = seq;
        seq = nextval_internal(sequence, false);
    } while (!is_after(seq, largest) && seq > before && --most > 0);
    return seq;
}

// Draws until the numbers are new ones. No other session sets the sequence forward meanwhile, and
// who draws a number that is not new waits for us: few are drawn beside us before it is past
// `largest`. Where it is that close it is not set at first, as that could take it back behind what
// others have drawn.
int64
draw_after(Oid sequence, uint64 largest, int64 drawn)
{
    constexpr int kAttempts = 100;
    const int64 close = 10000 + 2 * static_cast<int64>(MaxBackends);
    int64 seq = drawn;
    for (int i = 0; i < kAttempts && !is_after(seq, largest); i++)
    {
        if (i > 0 || seq < 0 || largest - static_cast<uint64>(seq) > static_cast<uint64>(close))
            set_forward(sequence, largest);
        seq = draw_until_new(sequence, largest, close + 1);
    }
    if (!is_after(seq, largest))
        ereport(ERROR,
                (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                 errmsg("sequence \"outbox.events_seq\" does not ascend"),
                 errdetail("It gives " INT64_FORMAT " after " UINT64_FORMAT ".", seq, largest),
                 errhint("Run ALTER SEQUENCE outbox.events_seq INCREMENT BY 1 NO CYCLE.")));
    return seq;
}

// Two events must not have the same number: what Kafka refuses is found by it, and the order of a
// key rests on it.
int64
put_right(DatabaseSlot *slot, Oid sequence, bool quiet)
{
    LOCKTAG tag;
    SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, sequence, 0, kLocksOfNumbers);
    (void) LockAcquire(&tag, ExclusiveLock, false, false);
    uint64 largest;
    int64 drawn;
    int64 seq;
    do
    {
        CHECK_FOR_INTERRUPTS();
        largest = pg_atomic_read_u64(&slot->largest_seq);
        drawn = nextval_internal(sequence, false);
        seq = is_after(drawn, largest) ? drawn : draw_after(sequence, largest, drawn);
    } while (!claim_number(slot, seq));
    (void) LockRelease(&tag, ExclusiveLock, false);
    if (seq != drawn && !quiet)
        ereport(WARNING,
                (errmsg("sequence \"outbox.events_seq\" was set back, and is set forward again"),
                 errdetail("It gave " INT64_FORMAT " after " UINT64_FORMAT
                           "; numbers continue with " INT64_FORMAT ".",
                           drawn, largest, seq),
                 errhint("Leave it out of dumps for a database that has events: pg_dump "
                         "--exclude-table-data=outbox.events_seq.")));
    return seq;
}

// Nothing when it is not known what was given.
void
set_right(int64 given, bool quiet)
{
    const Oid sequence = events_sequence();
    DatabaseSlot *slot = numbered_slot(sequence);
    if (slot == nullptr)
        return;
    (void) claim_number(slot, given);
    const uint64 largest = pg_atomic_read_u64(&slot->largest_seq);
    const int64 last = last_given(sequence);
    (void) claim_number(slot, last);
    if (last < 0 || static_cast<uint64>(last) < largest)
        (void) put_right(slot, sequence, quiet);
}

} // namespace

int64
next_seq()
{
    const Oid sequence = events_sequence();
    DatabaseSlot *slot = numbered_slot(sequence);
    if (slot == nullptr)
        return nextval_internal(sequence, false);
    for (;;)
    {
        CHECK_FOR_INTERRUPTS();
        // What had been given before we draw is smaller, unless the sequence was set back.
        const uint64 largest = pg_atomic_read_u64(&slot->largest_seq);
        const int64 seq = nextval_internal(sequence, false);
        if (!is_after(seq, largest))
            return put_right(slot, sequence, false);
        // Else another session was quicker with a later number, or, the sequence having been set
        // back meanwhile, with this one. Each turn that ends so is a number of another session.
        if (claim_number(slot, seq))
            return seq;
    }
}

void
record_numbers_to(int64 seq)
{
    DatabaseSlot *slot = numbered_slot(events_sequence());
    if (slot != nullptr)
        (void) claim_number(slot, seq);
}

void
raise_numbers_to(int64 seq)
{
    set_right(seq, true);
}

void
check_sequence()
{
    set_right(0, false);
}

} // namespace outbox
