// outbox.mark_processed(), mark_processed_many() and is_processed(): one row for each (consumer,
// event id), in the caller's transaction.

#include "processed_events.h"

#include "extension/server/arguments.h"
#include "extension/trust/kept_statement.h"

namespace outbox
{

namespace
{

const Oid kOneEvent[] = {TEXTOID, UUIDOID};
KeptStatement find_one = {
    "select from outbox.processed_events where consumer = $1 and event_id = $2",
    "read outbox.processed_events", 2, kOneEvent, nullptr};

constexpr const char *kEventIdHint = "Pass the Kafka record's header id.";

void
refuse_where_nothing_can_be_written(const char *what)
{
    PreventCommandDuringRecovery(what);
    PreventCommandIfReadOnly(what);
    PreventCommandIfParallelMode(what);
}

int
compare_ids(const void *a, const void *b)
{
    return memcmp(DatumGetUUIDP(*static_cast<const Datum *>(a)),
                  DatumGetUUIDP(*static_cast<const Datum *>(b)), UUID_LEN);
}

// The ids of the array, in order and each of them once.
Datum *
sorted_ids(ArrayType *array, int *count)
{
    Datum *ids;
    bool *nulls;
    deconstruct_array(array, UUIDOID, UUID_LEN, false, TYPALIGN_CHAR, &ids, &nulls, count);
    for (int i = 0; i < *count; i++)
        if (nulls[i])
            ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                            errmsg("event_ids must not contain nulls"),
                            errdetail("Element %d of %d is null.", i + 1, *count),
                            errhint("%s", kEventIdHint)));
    qsort(ids, static_cast<size_t>(*count), sizeof(Datum), compare_ids);
    int kept = 0;
    for (int i = 0; i < *count; i++)
        if (kept == 0 || compare_ids(&ids[kept - 1], &ids[i]) != 0)
            ids[kept++] = ids[i];
    *count = kept;
    return ids;
}

void
insert_all(Datum consumer, Datum *ids, int count, bool *is_new)
{
    if (!IsolationUsesXactSnapshot())
        return insert_processed(consumer, ids, count, is_new);
    insert_each(consumer, ids, count, is_new);
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
        outbox::refuse_where_nothing_can_be_written("outbox.mark_processed()");
        Datum id = PG_GETARG_DATUM(0);
        bool is_new;
        outbox::insert_all(PointerGetDatum(consumer), &id, 1, &is_new);
        PG_RETURN_BOOL(is_new);
    }

    Datum outbox_mark_processed_many(PG_FUNCTION_ARGS)
    {
        outbox::check_not_null(fcinfo, 0, "event_ids", "Pass an array of event ids.");
        text *consumer = outbox::checked_consumer(fcinfo, 1);
        outbox::refuse_where_nothing_can_be_written("outbox.mark_processed_many()");
        int count;
        Datum *ids = outbox::sorted_ids(PG_GETARG_ARRAYTYPE_P(0), &count);
        bool *is_new = static_cast<bool *>(palloc0(static_cast<Size>(count) + 1));
        outbox::begin_returned_rows(fcinfo, true);
        outbox::insert_all(PointerGetDatum(consumer), ids, count, is_new);
        ReturnSetInfo *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
        for (int i = 0; i < count; i++)
        {
            bool is_null = false;
            if (is_new[i])
                tuplestore_putvalues(result->setResult, result->setDesc, &ids[i], &is_null);
        }
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
