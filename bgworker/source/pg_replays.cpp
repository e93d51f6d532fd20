#include "pg_replays.h"

#include "bgworker/guard.h"

#include "replay_tables.h"
#include "short_transaction.h"
#include "spi_call.h"
#include "subscription.h"
#include "extension/server/server_text.h"

namespace outbox
{

namespace
{

#define FOREIGN "(r.system_identifier <> outbox.system_identifier() or r.database_oid <> $1)"

constexpr const char *kForeign =
    "with free as materialized (select r.id from outbox.replay_requests r "
    " where r.state = any ('{QUEUED,RUNNING}') and " FOREIGN " for no key update skip locked), "
    "ended as (update outbox.replay_requests r set state = 'FAILED', ended_at = clock_timestamp(), "
    " last_error = 'asked for in a database that this one is a copy of, or before an upgrade' "
    " from free f where r.id = f.id returning r.id) "
    "delete from outbox.replay_events e using ended d where e.replay_id = d.id";

constexpr const char *kFirst = "select r.id from outbox.replay_requests r "
                               "where r.state = any ('{QUEUED,RUNNING}') and not " FOREIGN " "
                               "and r.subscription = $2 order by r.requested_at, r.id limit 1";

constexpr const char *kTake =
    "with free as materialized (select r.id, r.state from outbox.replay_requests r "
    " where r.id = $1 and r.state = any ('{QUEUED,RUNNING}') for no key update skip locked) "
    "update outbox.replay_requests r "
    "set state = 'RUNNING', started_at = coalesce(r.started_at, clock_timestamp()) "
    "from free f where r.id = f.id "
    "returning r.total, r.published, r.refused, r.missing, r.rate_per_second, r.topic, "
    "r.last_error, f.state = 'RUNNING'";

constexpr const char *kIsRunning =
    "select from outbox.replay_requests r where r.id = $1 and r.state = 'RUNNING'";

constexpr const char *kPlaces =
    "select u.seq, u.xid, u.slot from outbox.replay_events e, "
    "unnest(e.seqs, e.xids, e.slots) with ordinality u (seq, xid, slot, n) "
    "where e.replay_id = $1 and e.chunk = $2 order by u.n";

constexpr const char *kSave =
    "with free as materialized (select r.id from outbox.replay_requests r "
    " where r.id = $1 and r.state = 'RUNNING' for no key update skip locked) "
    "update outbox.replay_requests r set published = $2, refused = $3, missing = $4, "
    "last_error = $5, state = coalesce($6, r.state), "
    "ended_at = case when $6 is null then null else clock_timestamp() end "
    "from free f where r.id = f.id";

constexpr const char *kForget =
    "delete from outbox.replay_events e where e.replay_id = $1 and e.chunk < $2";

constexpr const char *kNeeds =
    "select e.replay_id || case coalesce(r.subscription, 'default') when 'default' then '' "
    " else ' of subscription ' || r.subscription end "
    "from outbox.replay_events e left join outbox.replay_requests r on r.id = e.replay_id "
    "where $1 = any (e.held_slots) limit 1";

constexpr const char *kDetached =
    "with free as materialized (select r.id from outbox.replay_requests r "
    " where r.subscription = $1 and r.state = any ('{QUEUED,RUNNING}') "
    " for no key update skip locked), "
    "ended as (update outbox.replay_requests r set state = 'FAILED', ended_at = clock_timestamp(), "
    " last_error = 'its subscription was detached' from free f where r.id = f.id returning r.id) "
    "delete from outbox.replay_events e using ended d where e.replay_id = d.id";

int
number(int column)
{
    return DatumGetInt32(spi_first(column));
}

void
copy_text(int column, char *to, size_t size)
{
    const char *text = spi_first_text(column);
    strlcpy(to, text == nullptr ? "" : text, size);
}

bool
find_first(ReplayRequest *request)
{
    Oid types[] = {OIDOID, TEXTOID};
    Datum values[] = {ObjectIdGetDatum(MyDatabaseId), subscription_datum()};
    spi_execute(kFirst, 2, types, values, SPI_OK_SELECT);
    if (SPI_processed == 0)
        return false;
    const Datum id = spi_first(1);
    memcpy(request->id.data(), DatumGetUUIDP(id)->data, UUID_LEN);
    strlcpy(request->id_text, DatumGetCString(DirectFunctionCall1(uuid_out, id)),
            sizeof(request->id_text));
    return true;
}

void
end_foreign_replays()
{
    Oid types[] = {OIDOID};
    Datum values[] = {ObjectIdGetDatum(MyDatabaseId)};
    spi_connect();
    spi_execute(kForeign, 1, types, values, SPI_OK_DELETE);
    SPI_finish();
}

// In the current memory context.
Datum
id_of(const ReplayRequest &request)
{
    pg_uuid_t *id = static_cast<pg_uuid_t *>(palloc(sizeof(pg_uuid_t)));
    memcpy(id->data, request.id.data(), UUID_LEN);
    return UUIDPGetDatum(id);
}

Replays::Taken
claim_first(ReplayRequest *request)
{
    *request = {};
    spi_connect();
    Replays::Taken result = Replays::Taken::none;
    if (find_first(request))
    {
        Oid types[] = {UUIDOID};
        Datum values[] = {id_of(*request)};
        spi_execute(kTake, 1, types, values, SPI_OK_UPDATE_RETURNING);
        result = SPI_processed == 1 ? Replays::Taken::taken : Replays::Taken::held;
    }
    if (result == Replays::Taken::taken)
    {
        request->total = number(1);
        request->counts = {number(2), number(3), number(4)};
        request->rate_per_second = number(5);
        copy_text(6, request->topic, sizeof(request->topic));
        copy_text(7, request->last_error, sizeof(request->last_error));
        request->begun = DatumGetBool(spi_first(8));
    }
    SPI_finish();
    return result;
}

bool
is_running(const ReplayRequest &request)
{
    Oid types[] = {UUIDOID};
    Datum values[] = {id_of(request)};
    spi_connect();
    spi_execute(kIsRunning, 1, types, values, SPI_OK_SELECT);
    const bool running = SPI_processed == 1;
    SPI_finish();
    return running;
}

bool
write_progress(const ReplayRequest &request, const char *ended)
{
    Oid types[] = {UUIDOID, INT4OID, INT4OID, INT4OID, TEXTOID, TEXTOID};
    const bool no_error = request.last_error[0] == '\0';
    Datum values[] = {id_of(request),
                      Int32GetDatum(static_cast<int32>(request.counts.published)),
                      Int32GetDatum(static_cast<int32>(request.counts.refused)),
                      Int32GetDatum(static_cast<int32>(request.counts.missing)),
                      no_error ? static_cast<Datum>(0)
                               : PointerGetDatum(server_text(request.last_error)),
                      ended == nullptr ? static_cast<Datum>(0) : CStringGetTextDatum(ended)};
    const char nulls[] = {' ', ' ', ' ', ' ', no_error ? 'n' : ' ', ended == nullptr ? 'n' : ' ',
                          '\0'};
    spi_connect();
    spi_expect(SPI_execute_with_args(kSave, 6, types, values, nulls, false, 0), SPI_OK_UPDATE);
    const bool saved = SPI_processed == 1;
    if (saved)
    {
        // What is through needs its partitions no longer.
        types[1] = INT4OID;
        values[1] = Int32GetDatum(
            ended != nullptr ? PG_INT32_MAX
                             : static_cast<int32>(request.counts.total() / Replays::kChunk));
        spi_execute(kForget, 2, types, values, SPI_OK_DELETE);
    }
    SPI_finish();
    return saved;
}

} // namespace

OpenResult
lock_replay_tables()
{
    const OpenResult result = lock_table("replay_requests", RowExclusiveLock);
    return result != OpenResult::opened ? result : lock_table("replay_events", RowExclusiveLock);
}

Replays::Found
PgReplays::look_at(const ReplayRequest &request)
{
    Found found = Found::running;
    from_postgres(
        [&]
        {
            begin_transaction();
            const OpenResult opened = lock_replay_tables();
            if (opened == OpenResult::locked)
                found = Found::locked;
            else if (opened == OpenResult::opened && !is_running(request))
                found = Found::cancelled;
            end_transaction();
        });
    return found;
}

Replays::Taken
PgReplays::take(ReplayRequest &request)
{
    Taken taken = Taken::none;
    from_postgres(
        [&]
        {
            begin_transaction();
            const OpenResult opened = lock_replay_tables();
            if (opened == OpenResult::locked)
                taken = Taken::locked;
            else if (opened == OpenResult::missing)
                taken = Taken::gone;
            else
            {
                end_foreign_replays();
                taken = claim_first(&request);
            }
            end_transaction();
        });
    return taken;
}

bool
PgReplays::save(const ReplayRequest &request, const char *ended)
{
    bool saved = false;
    from_postgres(
        [&]
        {
            begin_transaction();
            saved = lock_replay_tables() == OpenResult::opened && write_progress(request, ended);
            end_transaction();
        });
    return saved;
}

void
PgReplays::read_chunk(const ReplayRequest &request, std::int64_t chunk,
                      std::vector<EventNumbers> &places)
{
    from_postgres(
        [&]
        {
            Oid types[] = {UUIDOID, INT4OID};
            Datum values[] = {id_of(request), Int32GetDatum(static_cast<int32>(chunk))};
            spi_connect();
            spi_execute(kPlaces, 2, types, values, SPI_OK_SELECT);
            const uint64 count = Min(SPI_processed, static_cast<uint64>(Replays::kChunk));
            call_cpp([&] { places.resize(count); });
            for (uint64 i = 0; i < count; i++)
            {
                places[i].seq = DatumGetInt64(spi_value(i, 1));
                places[i].xid = DatumGetInt64(spi_value(i, 2));
                places[i].slot = DatumGetInt16(spi_value(i, 3));
            }
            SPI_finish();
        });
}

void
end_replays_of(const char *subscription)
{
    Oid types[] = {TEXTOID};
    Datum values[] = {CStringGetTextDatum(subscription)};
    spi_connect();
    spi_execute(kDetached, 1, types, values, SPI_OK_DELETE);
    SPI_finish();
}

const char *
replay_that_needs(int slot)
{
    if (!OidIsValid(find_own_relation("replay_events")))
        return nullptr;
    Oid types[] = {INT2OID};
    Datum values[] = {Int16GetDatum(static_cast<int16>(slot))};
    const MemoryContext callers = CurrentMemoryContext;
    spi_connect();
    spi_execute(kNeeds, 1, types, values, SPI_OK_SELECT);
    const char *id = nullptr;
    if (SPI_processed == 1)
        id = MemoryContextStrdup(callers, spi_first_text(1));
    SPI_finish();
    return id;
}

} // namespace outbox
