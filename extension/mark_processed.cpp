// outbox.mark_processed(), mark_processed_many() and is_processed(): one row for each (consumer,
// event id), in the caller's transaction.

#include "arguments.h"
#include "kept_statement.h"

namespace outbox
{

namespace
{

const Oid kOneEvent[] = {TEXTOID, UUIDOID};
const Oid kManyEvents[] = {TEXTOID, UUIDARRAYOID};

KeptStatement insert_one = {"insert into outbox.processed_events (consumer, event_id) "
                            "values ($1, $2) on conflict do nothing",
                            "insert into outbox.processed_events", 2, kOneEvent, nullptr};

// Inserts in the order of the array.
KeptStatement insert_many = {"insert into outbox.processed_events (consumer, event_id) "
                             "select $1, event_id from pg_catalog.unnest($2) as event_id "
                             "on conflict do nothing returning event_id",
                             "insert into outbox.processed_events", 2, kManyEvents, nullptr};

KeptStatement find_one = {
    "select from outbox.processed_events where consumer = $1 and event_id = $2",
    "read outbox.processed_events", 2, kOneEvent, nullptr};

Oid
owner_of_processed_events()
{
    const Oid schema = get_namespace_oid("outbox", false);
    const Oid table = get_relname_relid("processed_events", schema);
    HeapTuple row = SearchSysCache1(RELOID, ObjectIdGetDatum(table));
    if (!HeapTupleIsValid(row))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
                        errmsg("relation \"outbox.processed_events\" does not exist"),
                        errhint("Run CREATE EXTENSION outbox in this database.")));
    const Oid owner = reinterpret_cast<Form_pg_class>(GETSTRUCT(row))->relowner;
    ReleaseSysCache(row);
    return owner;
}

// Callers need no right on the table, as with a security definer function, which would cost more
// than the insert may. An error restores the user together with the rest of the transaction's
// state.
bool
insert_as_owner(Datum consumer, Datum event_id)
{
    Oid user;
    int context;
    GetUserIdAndSecContext(&user, &context);
    SetUserIdAndSecContext(owner_of_processed_events(), context | SECURITY_LOCAL_USERID_CHANGE);

    connect_spi();
    Datum values[] = {consumer, event_id};
    const bool inserted = run_statement(&insert_one, values, nullptr, SPI_OK_INSERT) == 1;
    finish_spi();

    SetUserIdAndSecContext(user, context);
    return inserted;
}

constexpr const char *kEventIdHint = "Pass the Kafka record's header id.";

int
compare_ids(const void *a, const void *b)
{
    return memcmp(DatumGetUUIDP(*static_cast<const Datum *>(a)),
                  DatumGetUUIDP(*static_cast<const Datum *>(b)), UUID_LEN);
}

// Every caller inserts in the same order, so that none waits for another in a circle.
Datum
sorted_ids(ArrayType *array)
{
    Datum *ids;
    bool *nulls;
    int count;
    deconstruct_array(array, UUIDOID, UUID_LEN, false, TYPALIGN_CHAR, &ids, &nulls, &count);
    for (int i = 0; i < count; i++)
        if (nulls[i])
            ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                            errmsg("event_ids must not contain nulls"),
                            errdetail("Element %d of %d is null.", i + 1, count),
                            errhint("%s", kEventIdHint)));
    qsort(ids, static_cast<size_t>(count), sizeof(Datum), compare_ids);
    return PointerGetDatum(construct_array(ids, count, UUIDOID, UUID_LEN, false, TYPALIGN_CHAR));
}

} // namespace

} // namespace outbox

extern "C"
{
    OUTBOX_FUNCTION(outbox_mark_processed);
    OUTBOX_FUNCTION(outbox_mark_processed_many);
    OUTBOX_FUNCTION(outbox_is_processed);

    Datum outbox_mark_processed(PG_FUNCTION_ARGS)
    {
        outbox::check_not_null(fcinfo, 0, "event_id", outbox::kEventIdHint);
        text *consumer = outbox::checked_consumer(fcinfo, 1);
        PG_RETURN_BOOL(outbox::insert_as_owner(PointerGetDatum(consumer), PG_GETARG_DATUM(0)));
    }

    // Runs as the owner.
    Datum outbox_mark_processed_many(PG_FUNCTION_ARGS)
    {
        outbox::check_not_null(fcinfo, 0, "event_ids", "Pass an array of event ids.");
        text *consumer = outbox::checked_consumer(fcinfo, 1);
        Datum values[] = {PointerGetDatum(consumer), outbox::sorted_ids(PG_GETARG_ARRAYTYPE_P(0))};
        InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
        outbox::connect_spi();
        (void) outbox::run_statement(&outbox::insert_many, values, nullptr,
                                     SPI_OK_INSERT_RETURNING);
        outbox::return_rows(fcinfo);
        outbox::finish_spi();
        return static_cast<Datum>(0);
    }

    // Runs as the owner.
    Datum outbox_is_processed(PG_FUNCTION_ARGS)
    {
        outbox::check_not_null(fcinfo, 0, "event_id", outbox::kEventIdHint);
        Datum values[] = {PointerGetDatum(outbox::checked_consumer(fcinfo, 1)), PG_GETARG_DATUM(0)};
        outbox::connect_spi();
        const bool found =
            outbox::run_statement(&outbox::find_one, values, nullptr, SPI_OK_SELECT, true) > 0;
        outbox::finish_spi();
        PG_RETURN_BOOL(found);
    }
}
