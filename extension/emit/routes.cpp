// Reads outbox.routes, in backends and in the relay, and keeps it until it changes.

#include "routes.h"

#include "extension/server/server_text.h"
#include "extension/trust/own_relations.h"

#include <new>

namespace outbox
{

namespace
{

// Columns of outbox.routes, as attribute numbers; sql/routes.sql is the other side.
constexpr int kRouteAggregateType = 1;
constexpr int kRouteEventType = 2;
constexpr int kRouteTopic = 3;
constexpr int kRouteOnFailure = 4;
constexpr int kRouteHeadersFormat = 5;
constexpr int kRouteColumns = kRouteHeadersFormat;

// On the heap, as PostgreSQL's errors may leave the functions below. `building` is what an error
// left unfinished.
RouteTable *current = nullptr;
RouteTable *building = nullptr;

// The table was read when `changes` was `seen_changes`.
uint64 changes = 1;
uint64 seen_changes = 0;
Oid table_oid = InvalidOid;

// The trigger on the table has its relation cache entry dropped at each commit that changes rows,
// also of a prepared transaction, and in the session itself at each command and at rollbacks.
void
count_change(Datum, Oid relation)
{
    if (!OidIsValid(relation) || !OidIsValid(table_oid) || relation == table_oid)
        changes++;
}

void
watch()
{
    static bool watching = false;
    if (watching)
        return;
    CacheRegisterRelcacheCallback(count_change, static_cast<Datum>(0));
    watching = true;
}

RouteTable *
make_table()
{
    RouteTable *table = nullptr;
    try
    {
        table = new RouteTable;
    }
    catch (const std::bad_alloc &)
    {
        table = nullptr; // raised below, with no exception under way
    }
    if (table == nullptr)
        ereport(ERROR,
                (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("no memory for the routes of events")));
    return table;
}

std::optional<std::string_view>
column(TupleTableSlot *row, int number)
{
    bool is_null;
    const Datum value = slot_getattr(row, number, &is_null);
    return is_null ? std::nullopt : std::optional(text_view(DatumGetTextPP(value)));
}

Verdict
read_row(TupleTableSlot *row)
{
    const RouteText text = {column(row, kRouteAggregateType).value_or(""),
                            column(row, kRouteEventType).value_or(""), column(row, kRouteTopic),
                            column(row, kRouteOnFailure), column(row, kRouteHeadersFormat)};
    const Verdict verdict = building->add(text);
    if (verdict.ok)
        return verdict;
    const std::string_view aggregate = clip_server(text.aggregate_type, 64);
    const std::string_view event = clip_server(text.event_type, 64);
    return refuse(verdict.hint, "route of (%.*s, %.*s): its %s", static_cast<int>(aggregate.size()),
                  aggregate.data(), static_cast<int>(event.size()), event.data(), verdict.reason);
}

// What was committed meanwhile counts, whatever the isolation level is.
Verdict
read_rows(Relation relation)
{
    Verdict verdict;
    const Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
    TableScanDesc scan = table_beginscan(relation, snapshot, 0, nullptr);
    TupleTableSlot *row = table_slot_create(relation, nullptr);
    while (verdict.ok && table_scan_getnextslot(scan, ForwardScanDirection, row))
        verdict = read_row(row);
    ExecDropSingleTupleTableSlot(row);
    table_endscan(scan);
    UnregisterSnapshot(snapshot);
    return verdict;
}

// Returns false when it is locked.
bool
lock_table(Oid table, bool wait)
{
    if (!wait)
        return ConditionalLockRelationOid(table, AccessShareLock);
    LockRelationOid(table, AccessShareLock);
    return true;
}

} // namespace

void
check_route_columns(TupleDesc desc)
{
    for (int i = 0; i < kRouteColumns; i++)
        if (i >= desc->natts || TupleDescAttr(desc, i)->attisdropped ||
            TupleDescAttr(desc, i)->atttypid != TEXTOID)
            ereport(ERROR,
                    (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                     errmsg("outbox.routes does not have the columns that the extension made"),
                     errhint("Undo what was done to the table.")));
}

bool
routes_changed()
{
    return changes != seen_changes;
}

RoutesLoaded
load_routes(bool wait, Verdict *verdict)
{
    watch();
    *verdict = {};
    // A change that is heard of from here on makes it read again.
    const uint64 now = changes;
    delete building;
    building = nullptr;
    building = make_table();
    table_oid = find_own_relation("routes");
    if (OidIsValid(table_oid) && !lock_table(table_oid, wait))
        return RoutesLoaded::locked;
    // It may have been dropped before it was locked; an extension of an older version has none.
    if (OidIsValid(table_oid) && SearchSysCacheExists1(RELOID, ObjectIdGetDatum(table_oid)))
    {
        Relation relation = table_open(table_oid, NoLock);
        check_route_columns(RelationGetDescr(relation));
        *verdict = read_rows(relation);
        table_close(relation, AccessShareLock);
    }
    seen_changes = now;
    if (!verdict->ok)
        return RoutesLoaded::broken;
    delete current;
    current = building;
    building = nullptr;
    return RoutesLoaded::current;
}

RoutesLoaded
load_routes()
{
    Verdict verdict;
    return load_routes(false, &verdict);
}

const RouteTable *
routes()
{
    return current;
}

} // namespace outbox
