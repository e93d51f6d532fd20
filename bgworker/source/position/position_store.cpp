#include "position_store.h"

#include "copied_database.h"
#include "restored_dump.h"

#include "bgworker/guard.h"
#include "bgworker/source/spi_call.h"
#include "bgworker/source/subscription.h"

#include "extension/server/control_file.h"

namespace outbox
{

namespace
{

// What a row of outbox.relay_position is.
enum class RowKind
{
    own,        // written by this database's relay, and unchanged since
    promoted,   // the same, before this server was promoted from a standby
    moved,      // the same, in another data directory on the same timeline: taken for a copy
    renumbered, // as own, written before birth times counted
    edited,     // of this database, but not as the relay wrote it
    upgraded,   // ours, before pg_upgrade, which keeps transaction ids and changes the identifier
    copied,     // of the database that this one was made from as a template
    restored    // from a dump
};

// As kSelect names them.
constexpr struct
{
    const char *name;
    RowKind kind;
} kKinds[] = {{"own", RowKind::own},       {"promoted", RowKind::promoted},
              {"moved", RowKind::moved},   {"renumbered", RowKind::renumbered},
              {"edited", RowKind::edited}, {"upgraded", RowKind::upgraded},
              {"copied", RowKind::copied}, {"restored", RowKind::restored}};

// Young clusters use the same transaction ids, so by chance a dump's row looks unchanged. Therefore
// a row whose dump is settled is known by that, and a foreign identifier beside restored events, or
// beside the counts of a dump, is taken for a dump's; so is a changed row of this database, which a
// dump may have brought that was made of it.
#define CAME_WITH_DUMP                                                                             \
    "(exists (select from outbox.events e where e.xid < 0) or " COUNTED("dump") ")"

constexpr const char *kSelect =
    "select case "
    " when not p.rows_counted then 'restored' "
    " when p.system_identifier = outbox.system_identifier() then case "
    "  when p.xmin <> p.written_by::xid then "
    "   case when p.database_oid = $1 and not " CAME_WITH_DUMP " then 'edited' else 'restored' end "
    "  when p.database_oid <> $1 then 'copied' "
    "  when p.data_directory = outbox.data_directory() then 'own' "
    "  when p.data_directory = $2 then 'renumbered' "
    "  when p.timeline = outbox.timeline() then 'moved' "
    "  else 'promoted' end "
    " when p.xmin <> p.written_by::xid "
    "  or " CAME_WITH_DUMP " then 'restored' "
    " else 'upgraded' end, "
    "p.from_snapshot::text, p.to_snapshot::text, p.last_seq, p.published_total "
    "from outbox.relay_position p where p.subscription = $3";

#define PLACE "outbox.system_identifier(), $1, outbox.timeline(), outbox.data_directory()"

constexpr const char *kInsert =
    "insert into outbox.relay_position (system_identifier, database_oid, timeline, data_directory, "
    "written_by, from_snapshot, to_snapshot, last_seq, published_total, updated_at, "
    "rows_counted, subscription) "
    "values (" PLACE ", pg_current_xact_id(), $2::pg_snapshot, $3::pg_snapshot, $4, 0, "
    "now(), true, $5)";

// Of the rows that are where the relay put them, the one that is from another place than this.
constexpr const char *kTakeOver =
    "update outbox.relay_position p set (system_identifier, database_oid, timeline, "
    "data_directory, written_by) = (select " PLACE ", pg_current_xact_id()) "
    "where p.xmin = p.written_by::xid and p.rows_counted is distinct from false "
    "and p.subscription = $3";

#define IS_OWN                                                                                     \
    "where p.system_identifier = outbox.system_identifier() and p.database_oid = $1 "              \
    "and p.xmin = p.written_by::xid and p.rows_counted is distinct from false "

constexpr const char *kUpdate =
    "update outbox.relay_position p set written_by = pg_current_xact_id(), "
    "from_snapshot = $2::pg_snapshot, to_snapshot = $3::pg_snapshot, last_seq = $4, "
    "published_total = $5, updated_at = clock_timestamp(), rows_counted = true " IS_OWN
    "and p.subscription = $6";

constexpr const char *kAddPublished =
    "update outbox.relay_position p set written_by = pg_current_xact_id(), "
    "published_total = published_total + $2 " IS_OWN "and p.subscription = $3";

constexpr const char *kInsertTick = "insert into outbox.ticks (next_xid, snapshot, published_at) "
                                    "values ($1, $2::pg_snapshot, clock_timestamp())";

// A snapshot that sees nothing: no transaction has an id below 3.
constexpr const char *kNothing = "3:3:";

char *
text_of(const XidSnapshot &snapshot)
{
    // The string lives and dies inside the call, its copy in the current memory context.
    char *copy = nullptr;
    Size size = 0;
    call_cpp([&] { size = snapshot.to_text().size() + 1; });
    copy = static_cast<char *>(palloc(size));
    call_cpp([&] { strlcpy(copy, snapshot.to_text().c_str(), size); });
    return copy;
}

struct Counts
{
    int own;       // promoted and upgraded ones too
    int take_over; // those that need a new place
    int copied;
    int edited; // or from a dump of this very database
};

bool
parse_into(XidSnapshot *snapshot, const char *text)
{
    bool parsed = false;
    call_cpp([&] { parsed = XidSnapshot::parse(text, *snapshot); });
    return parsed;
}

// Returns what is wrong with the row, or null.
const char *
read_own(HeapTuple row, TupleDesc desc, StoredPosition *stored)
{
    bool is_null;
    Position &position = stored->position;
    if (!parse_into(&position.from, SPI_getvalue(row, desc, 2)) ||
        !parse_into(&position.to, SPI_getvalue(row, desc, 3)))
        return "its snapshots cannot be read";
    position.last_seq = DatumGetInt64(SPI_getbinval(row, desc, 4, &is_null));
    stored->published_total = DatumGetInt64(SPI_getbinval(row, desc, 5, &is_null));
    const uint64 next_xid = U64FromFullTransactionId(ReadNextFullTransactionId());
    if (position.from.xmax() > next_xid || position.to.xmax() > next_xid)
        return "it names transactions that have not begun";
    if (position.to.xmax() < position.from.xmax())
        return "to_snapshot is older than from_snapshot";
    return nullptr;
}

RowKind
kind_of(const char *name)
{
    for (const auto &known : kKinds)
        if (strcmp(name, known.name) == 0)
            return known.kind;
    elog(ERROR, "unknown kind of a row of outbox.relay_position: %s", name);
}

// Returns what is wrong, or null.
const char *
read_row(HeapTuple row, TupleDesc desc, StoredPosition *stored, Counts *counts)
{
    const RowKind kind = kind_of(SPI_getvalue(row, desc, 1));
    switch (kind)
    {
    case RowKind::edited:
        counts->edited++;
        return nullptr;
    case RowKind::moved:
        return serves_default()
                   ? "this data directory is a copy, and the original may be publishing the same "
                     "events; call outbox.adopt_position() if it is not"
                   : "this data directory is a copy, and the original may be publishing the same "
                     "events; call outbox.adopt_position() with its name if it is not";
    case RowKind::restored:
        return nullptr; // see restore.cpp
    case RowKind::copied:
        counts->copied++;
        return read_own(row, desc, stored);
    case RowKind::own:
    case RowKind::promoted:
    case RowKind::renumbered:
    case RowKind::upgraded:
        break;
    }
    counts->own++;
    counts->take_over += kind == RowKind::own ? 0 : 1;
    return read_own(row, desc, stored);
}

const char *
read_rows(StoredPosition *stored, Counts *counts)
{
    const char *problem = nullptr;
    for (uint64 i = 0; i < SPI_processed && problem == nullptr; i++)
        problem = read_row(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, stored, counts);
    if (problem == nullptr && counts->own == 0 && counts->edited > 0)
        problem = serves_default() ? kPositionChanged
                                   : "it was changed, and not by the relay; if it is right, call "
                                     "outbox.adopt_position() with its name";
    if (problem == nullptr && counts->own > 1)
        problem = "there are several rows for this database";
    return problem;
}

void
insert_position(const Position &position)
{
    Oid types[] = {OIDOID, TEXTOID, TEXTOID, INT8OID, TEXTOID};
    Datum values[] = {ObjectIdGetDatum(MyDatabaseId), CStringGetTextDatum(text_of(position.from)),
                      CStringGetTextDatum(text_of(position.to)), Int64GetDatum(position.last_seq),
                      subscription_datum()};
    spi_execute(kInsert, 5, types, values, SPI_OK_INSERT);
}

// The copied row says how far the original had published. When it is no longer known what was
// committed here since, the copy continues from there: it may repeat what the original publishes,
// and loses nothing of its own.
void
begin_copy(StoredPosition *stored)
{
    const uint64 created_by = transaction_of_creation();
    leave_to_original(created_by);
    if (created_by != 0)
    {
        const char *snapshot =
            psprintf(UINT64_FORMAT ":" UINT64_FORMAT ":", created_by, created_by);
        (void) parse_into(&stored->position.from, snapshot);
        stored->position.to = stored->position.from;
        stored->position.last_seq = 0;
    }
    else
    {
        Oid types[] = {TEXTOID};
        Datum values[] = {subscription_datum()};
        spi_execute("delete from outbox.relay_position p "
                    "where p.xmin = p.written_by::xid and p.subscription = $1",
                    1, types, values, SPI_OK_DELETE);
    }
    ereport(LOG, (errmsg("outbox: this database is a copy; events from before the copy are left to "
                         "the original"),
                  created_by != 0
                      ? 0
                      : errdetail("Its row of pg_database no longer shows when it was made: "
                                  "what the original had not published then is published here "
                                  "too.")));
}

void
create_position(StoredPosition *stored, const Counts &counts)
{
    if (counts.copied > 0)
        begin_copy(stored);
    else
    {
        (void) parse_into(&stored->position.from, kNothing);
        (void) parse_into(&stored->position.to, kNothing);
        stored->position.last_seq = 0;
    }
    stored->published_total = 0;
    insert_position(stored->position);
}

} // namespace

LoadResult
load_position(StoredPosition *stored, char *problem, size_t problem_size)
{
    spi_connect();
    FileIdentity without_birth = control_file_identity();
    without_birth.has_birth = false;
    Oid types[] = {OIDOID, INT8OID, TEXTOID};
    Datum values[] = {ObjectIdGetDatum(MyDatabaseId),
                      Int64GetDatum(directory_identity(without_birth)), subscription_datum()};
    spi_execute(kSelect, 3, types, values, SPI_OK_SELECT);
    Counts counts = {};
    const char *broken = read_rows(stored, &counts);
    if (broken != nullptr)
        snprintf(problem, problem_size, "outbox.relay_position cannot be used: %s", broken);
    else if (counts.own == 0 && !serves_default())
    {
        SPI_finish();
        return LoadResult::missing;
    }
    else if (counts.own == 0)
        create_position(stored, counts);
    else if (counts.take_over > 0)
        spi_execute(kTakeOver, 3, types, values, SPI_OK_UPDATE);
    SPI_finish();
    return broken != nullptr ? LoadResult::broken : LoadResult::loaded;
}

bool
save_position(const Position &position, int64 published_total)
{
    spi_connect();
    Oid types[] = {OIDOID, TEXTOID, TEXTOID, INT8OID, INT8OID, TEXTOID};
    Datum values[] = {ObjectIdGetDatum(MyDatabaseId),
                      CStringGetTextDatum(text_of(position.from)),
                      CStringGetTextDatum(text_of(position.to)),
                      Int64GetDatum(position.last_seq),
                      Int64GetDatum(published_total),
                      subscription_datum()};
    static SPIPlanPtr plan = nullptr;
    spi_execute_kept(&plan, kUpdate, 6, types, values, SPI_OK_UPDATE);
    const bool saved = SPI_processed == 1;
    SPI_finish();
    return saved;
}

void
add_published(int64 count)
{
    spi_connect();
    Oid types[] = {OIDOID, INT8OID, TEXTOID};
    Datum values[] = {ObjectIdGetDatum(MyDatabaseId), Int64GetDatum(count), subscription_datum()};
    static SPIPlanPtr plan = nullptr;
    spi_execute_kept(&plan, kAddPublished, 3, types, values, SPI_OK_UPDATE);
    SPI_finish();
}

void
save_tick(const XidSnapshot &snapshot)
{
    spi_connect();
    Oid types[] = {INT8OID, TEXTOID};
    Datum values[] = {Int64GetDatum(static_cast<int64>(snapshot.xmax())),
                      CStringGetTextDatum(text_of(snapshot))};
    spi_execute(kInsertTick, 2, types, values, SPI_OK_INSERT);
    SPI_finish();
}

} // namespace outbox
