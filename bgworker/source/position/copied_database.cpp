#include "copied_database.h"

#include "bgworker/source/spi_call.h"

namespace outbox
{

namespace
{

#define LEFT_TO_ORIGINAL "'left to the database that this one is a copy of'"

// No topic is called '': outbox.ring lets these rows go with their partition.
constexpr const char *kGiveUpSetAside =
    "update outbox.deliveries d set state = 'DISCARDED', blocking = false, next_attempt_at = null, "
    "topic = '', settled_at = clock_timestamp(), reason = " LEFT_TO_ORIGINAL " "
    "where d.state <> 'DISCARDED'";

// Ids of transactions are compared by their age, as 32 bits of them are in the row.
#define AGE_OF_COPY "age($1::text::xid8::xid) "

// A row of the original's relay: no other of a template's can be like it.
#define OF_ORIGINAL                                                                                \
    "p.system_identifier = outbox.system_identifier() and p.xmin = p.written_by::xid "

constexpr const char *kGiveUpUnpublished =
    "insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, partition_key, state, "
    "blocking, settled_at, reason) "
    "select e.seq, greatest(e.xid, 0), e.slot, e.id, 0, '', '', 'DISCARDED', false, "
    "clock_timestamp(), " LEFT_TO_ORIGINAL " from outbox.events e "
    "where case when e.xid < 0 then age(e.xmin) > " AGE_OF_COPY " else e.xid > 0 and e.xid < $1 "
    "  and not exists (select from outbox.relay_position p where " OF_ORIGINAL
    "   and (outbox.visible_in(e.xid, p.from_snapshot) "
    "    or (e.seq <= p.last_seq and outbox.visible_in(e.xid, p.to_snapshot)))) end "
    "on conflict do nothing";

constexpr const char *kSettleRestored =
    "update outbox.events e set xid = 0 where e.xid < 0 and age(e.xmin) > " AGE_OF_COPY;

constexpr const char *kForgetPositions =
    "delete from outbox.relay_position p where age(p.xmin) > " AGE_OF_COPY;

constexpr const char *kForgetDeliveries =
    "delete from outbox.restored_deliveries r where age(r.xmin) > " AGE_OF_COPY;

void
execute_with(const char *statement, uint64 xid, int expected)
{
    Oid types[] = {INT8OID};
    Datum values[] = {Int64GetDatum(static_cast<int64>(xid))};
    spi_execute(statement, 1, types, values, expected);
}

// What `default` missed in the original stays MISSED, and it takes what the copy commits: what the
// original had not passed, when it is not known when the copy was made.
constexpr const char *kAttachDefault =
    "insert into outbox.subscription_history (subscription, number, since, takes) "
    "select h.subscription, h.number + 1, case when $1 <> 0 then format('%s:%s:', $1, "
    "$1)::pg_snapshot "
    " else coalesce(p.from_snapshot, '3:3:') end, true "
    "from outbox.subscription_history h left join outbox.relay_position p on " OF_ORIGINAL
    "and p.subscription = 'default' where h.subscription = 'default' and not h.takes "
    "and h.number = (select max(o.number) from outbox.subscription_history o "
    " where o.subscription = 'default')";

// Nobody has said that the copy is to send to where the original does.
void
forget_subscriptions()
{
    spi_execute("delete from outbox.subscription_history h where h.subscription <> 'default'", 0,
                nullptr, nullptr, SPI_OK_DELETE);
    spi_execute("delete from outbox.subscriptions", 0, nullptr, nullptr, SPI_OK_DELETE);
    spi_execute("delete from outbox.deliveries d where d.subscription <> 'default'", 0, nullptr,
                nullptr, SPI_OK_DELETE);
    spi_execute("delete from outbox.replay_events e using outbox.replay_requests r "
                "where e.replay_id = r.id and r.subscription <> 'default'",
                0, nullptr, nullptr, SPI_OK_DELETE);
    spi_execute("delete from outbox.replay_requests r where r.subscription <> 'default'", 0,
                nullptr, nullptr, SPI_OK_DELETE);
    spi_execute("delete from outbox.pauses p where p.subscription <> 'default'", 0, nullptr,
                nullptr, SPI_OK_DELETE);
    spi_execute("delete from outbox.relay_position p where p.subscription <> 'default'", 0, nullptr,
                nullptr, SPI_OK_DELETE);
}

} // namespace

uint64
transaction_of_creation()
{
    // GRANT and ALTER DATABASE make new versions of the row, with an xmin of their own. The first
    // version says of itself that it comes from no update. It is there until a vacuum takes it.
    TransactionId made_by = InvalidTransactionId;
    Relation relation = table_open(DatabaseRelationId, AccessShareLock);
    TableScanDesc scan = table_beginscan(relation, SnapshotAny, 0, nullptr);
    HeapTuple row;
    while ((row = heap_getnext(scan, ForwardScanDirection)) != nullptr)
    {
        const TransactionId xmin = HeapTupleHeaderGetRawXmin(row->t_data);
        if (reinterpret_cast<Form_pg_database>(GETSTRUCT(row))->oid == MyDatabaseId &&
            (row->t_data->t_infomask & HEAP_UPDATED) == 0 && TransactionIdIsNormal(xmin) &&
            (HeapTupleHeaderXminCommitted(row->t_data) || TransactionIdDidCommit(xmin)))
            made_by = xmin;
    }
    table_endscan(scan);
    table_close(relation, AccessShareLock);
    if (!TransactionIdIsValid(made_by))
        return 0;
    const FullTransactionId next = ReadNextFullTransactionId();
    uint64 epoch = EpochFromFullTransactionId(next);
    if (made_by > XidFromFullTransactionId(next))
        epoch--;
    return epoch << 32 | made_by;
}

void
leave_to_original(uint64 created_by)
{
    forget_subscriptions();
    execute_with(kAttachDefault, created_by, SPI_OK_INSERT);
    spi_execute(kGiveUpSetAside, 0, nullptr, nullptr, SPI_OK_UPDATE);
    if (created_by == 0)
        return;
    execute_with(kGiveUpUnpublished, created_by, SPI_OK_INSERT);
    execute_with(kSettleRestored, created_by, SPI_OK_UPDATE);
    execute_with(kForgetPositions, created_by, SPI_OK_DELETE);
    execute_with(kForgetDeliveries, created_by, SPI_OK_DELETE);
}

} // namespace outbox
