#include "readers.h"

#include "bgworker/guard.h"
#include "bgworker/source/replay_tables.h"
#include "bgworker/source/spi_call.h"

namespace outbox
{

namespace
{

// What publishing can wait for.
#define COUNTED_AT_ONCE "20000"

// Also of one whose row is gone, by hand: nobody knows what it has published.
constexpr const char *kNext =
    "select p.subscription, p.from_snapshot::text, s.options, s.attached_at, s.detached_at "
    "from outbox.relay_position p left join outbox.subscriptions s on s.name = p.subscription "
    "where p.subscription > $1 and p.subscription <> 'default' "
    "and p.system_identifier = outbox.system_identifier() and p.database_oid = $2 "
    "and p.xmin = p.written_by::xid order by p.subscription limit 1";

constexpr const char *kUnsettled =
    "select exists (select from outbox.deliveries d where d.slot = $1 and d.subscription = $2 "
    " and d.state = any ('{RETRYING,WAITING}'))";

constexpr const char *kRefusedBefore =
    "select exists (select from outbox.deliveries d where d.slot = $1 and d.subscription = $2 "
    " and d.state = 'RETRYING' and d.failed_at < $3)";

// Ticks of a dump are of another history.
#define PUBLISHED_BY_THEN                                                                          \
    "(select coalesce("                                                                            \
    "(select o.from_snapshot from outbox.current_position o where o.updated_at <= $2), "           \
    "(select t.snapshot from outbox.ticks t "                                                      \
    " where t.published_at <= $2 and t.xmin = t.written_by::xid "                                  \
    " order by t.published_at desc, t.next_xid desc limit 1)) as snapshot) "

#define POSITION                                                                                   \
    "outbox.relay_position p where p.subscription = $1 and p.xmin = p.written_by::xid "            \
    "and p.system_identifier = outbox.system_identifier() and p.database_oid = "                   \
    " (select d.oid from pg_database d where d.datname = current_database()) "

// Whether subscription $1 would have sent event e: its position p has not passed it, it is not set
// aside, and the lists took it that held when it was committed.
#define TO_BE_SENT                                                                                 \
    "e.xid > 0 and not outbox.visible_in(e.xid, p.from_snapshot) "                                 \
    "and not (e.seq <= p.last_seq and outbox.visible_in(e.xid, p.to_snapshot)) "                   \
    "and not exists (select from outbox.deliveries d "                                             \
    " where d.seq = e.seq and d.event_id = e.id and d.subscription = $1) "                         \
    "and (select outbox.matches_types(e.aggregate_type, h.aggregate_types) "                       \
    "  and outbox.matches_types(e.event_type, h.event_types) "                                     \
    " from outbox.subscription_history h "                                                         \
    " where h.subscription = $1 and h.takes and not outbox.visible_in(e.xid, h.since) "            \
    " order by h.number desc limit 1) "

// Of partition %d, twice.
constexpr const char *kPublishedBefore =
    "select exists (select from (select p.from_snapshot as reached from " POSITION
    ") p, " PUBLISHED_BY_THEN "o where o.snapshot is not null and (exists ("
    " select from outbox.events_%d e where e.xid >= pg_snapshot_xmax(p.reached)::text::bigint "
    " and e.xid < pg_snapshot_xmax(o.snapshot)::text::bigint "
    " and outbox.visible_in(e.xid, o.snapshot)) or exists ("
    " select from outbox.events_%d e where e.xid = any (array("
    "  select x::text::bigint from pg_snapshot_xip(p.reached) x)) "
    " and outbox.visible_in(e.xid, o.snapshot))))";

constexpr const char *kDetach =
    "with s as (select s.name from outbox.subscriptions s "
    " where s.name = $1 and s.detached_at is null for no key update skip locked), "
    "u as (update outbox.subscriptions t set detached_at = clock_timestamp(), missed_events = 0 "
    " from s where t.name = s.name returning t.name, t.aggregate_types, t.event_types) "
    "insert into outbox.subscription_history "
    "(subscription, number, since, takes, aggregate_types, event_types) "
    "select u.name, coalesce((select max(h.number) from outbox.subscription_history h "
    " where h.subscription = u.name), 0) + 1, p.reached, false, u.aggregate_types, u.event_types "
    "from u, (select p.from_snapshot as reached from " POSITION ") p";

constexpr const char *kCount =
    "with p as (select p.from_snapshot, p.to_snapshot, p.last_seq from " POSITION "), "
    "part as (select e.xid, e.seq, e.id, e.aggregate_type, e.event_type from outbox.events_%d e "
    " where (e.xid, e.seq) > ($2, $3) order by e.xid, e.seq limit " COUNTED_AT_ONCE ") "
    "select count(*), count(*) filter (where " TO_BE_SENT "), "
    "(select l.xid from part l order by l.xid desc, l.seq desc limit 1), "
    "(select l.seq from part l order by l.xid desc, l.seq desc limit 1) "
    "from part e, p";

constexpr const char *kWriteMissed =
    "with s as (select s.name from outbox.subscriptions s "
    " where s.name = $1 and s.detached_at = $2 for no key update skip locked), "
    "gone as (delete from outbox.deliveries d using s where d.subscription = s.name "
    " and d.slot = $3 and d.state = any ('{RETRYING,WAITING}') returning d.seq) "
    "update outbox.subscriptions t set missed_events = t.missed_events + $4 "
    " + (select count(*) from gone) from s where t.name = s.name";

bool
ask_of_slot(const char *statement, int slot, const Reader &reader, TimestampTz time)
{
    Oid types[] = {INT2OID, TEXTOID, TIMESTAMPTZOID};
    Datum values[] = {Int16GetDatum(static_cast<int16>(slot)), CStringGetTextDatum(reader.name),
                      TimestampTzGetDatum(time)};
    spi_connect();
    spi_execute(statement, statement == kUnsettled ? 2 : 3, types, values, SPI_OK_SELECT);
    const bool answer = DatumGetBool(spi_first(1));
    SPI_finish();
    return answer;
}

} // namespace

bool
read_next_reader(Reader *reader)
{
    Oid types[] = {TEXTOID, OIDOID};
    Datum values[] = {CStringGetTextDatum(reader->name), ObjectIdGetDatum(MyDatabaseId)};
    spi_connect();
    static SPIPlanPtr plan = nullptr;
    spi_execute_kept(&plan, kNext, 2, types, values, SPI_OK_SELECT);
    bool found = SPI_processed == 1;
    if (found)
    {
        bool no_options;
        bool attached;
        strlcpy(reader->name, spi_first_text(1), sizeof(reader->name));
        char *text = spi_first_text(2);
        call_cpp([&] { found = XidSnapshot::parse(text, reader->published); });
        const Datum options = spi_first(3, &no_options);
        reader->max_lag = no_options ? MaxLag{} : max_lag_of(DatumGetJsonbP(options));
        reader->attached_at = no_options ? 0 : DatumGetTimestampTz(spi_first(4));
        const Datum detached_at = spi_first(5, &attached);
        reader->detached = !attached;
        reader->detached_at = attached ? 0 : DatumGetTimestampTz(detached_at);
    }
    SPI_finish();
    return found;
}

bool
has_unsettled(int slot, const Reader &reader)
{
    return ask_of_slot(kUnsettled, slot, reader, 0);
}

bool
holds_since(int slot, const Reader &reader, TimestampTz time)
{
    if (ask_of_slot(kRefusedBefore, slot, reader, time))
        return true;
    Oid types[] = {TEXTOID, TIMESTAMPTZOID};
    Datum values[] = {CStringGetTextDatum(reader.name), TimestampTzGetDatum(time)};
    spi_connect();
    spi_execute(psprintf(kPublishedBefore, slot, slot), 2, types, values, SPI_OK_SELECT);
    const bool holds = DatumGetBool(spi_first(1));
    SPI_finish();
    return holds;
}

bool
write_detached(const char *name)
{
    Oid types[] = {TEXTOID};
    Datum values[] = {CStringGetTextDatum(name)};
    spi_connect();
    spi_execute(kDetach, 1, types, values, SPI_OK_INSERT);
    const bool done = SPI_processed == 1;
    SPI_finish();
    if (done)
        end_replays_of(name);
    return done;
}

void
count_missed(int slot, Missed *missed)
{
    Oid types[] = {TEXTOID, INT8OID, INT8OID};
    Datum values[] = {CStringGetTextDatum(missed->name), Int64GetDatum(missed->xid),
                      Int64GetDatum(missed->seq)};
    spi_connect();
    spi_execute(psprintf(kCount, slot), 3, types, values, SPI_OK_SELECT);
    missed->all = DatumGetInt64(spi_first(1)) == 0;
    if (!missed->all)
    {
        missed->events += DatumGetInt64(spi_first(2));
        missed->xid = DatumGetInt64(spi_first(3));
        missed->seq = DatumGetInt64(spi_first(4));
    }
    SPI_finish();
}

bool
write_missed(int slot, const Missed &missed)
{
    Oid types[] = {TEXTOID, TIMESTAMPTZOID, INT2OID, INT8OID};
    Datum values[] = {CStringGetTextDatum(missed.name), TimestampTzGetDatum(missed.detached_at),
                      Int16GetDatum(static_cast<int16>(slot)), Int64GetDatum(missed.events)};
    spi_connect();
    spi_execute(kWriteMissed, 4, types, values, SPI_OK_UPDATE);
    const bool done = SPI_processed == 1;
    SPI_finish();
    return done;
}

} // namespace outbox
