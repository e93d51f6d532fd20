// outbox.mark_processed(): one row for each (consumer, event id), in the caller's transaction.

#include "pg.h"

namespace outbox
{

namespace
{

constexpr const char *kInsert = "insert into outbox.processed_events (consumer, event_id) "
                                "values ($1, $2) on conflict do nothing";

SPIPlanPtr
insert_plan()
{
    static SPIPlanPtr plan = nullptr;
    if (plan == nullptr)
    {
        Oid types[] = {TEXTOID, UUIDOID};
        SPIPlanPtr prepared = SPI_prepare(kInsert, 2, types);
        if (prepared == nullptr || SPI_keepplan(prepared) != 0)
            ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
                            errmsg("could not prepare the insert into outbox.processed_events: %s",
                                   SPI_result_code_string(SPI_result))));
        plan = prepared;
    }
    return plan;
}

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

// Callers need no right on the table, as with a security definer function. An error restores the
// user together with the rest of the transaction's state.
bool
insert_as_owner(Datum consumer, Datum event_id)
{
    Oid user;
    int context;
    GetUserIdAndSecContext(&user, &context);
    SetUserIdAndSecContext(owner_of_processed_events(), context | SECURITY_LOCAL_USERID_CHANGE);

    SPI_connect();
    Datum values[] = {consumer, event_id};
    const int result = SPI_execute_plan(insert_plan(), values, nullptr, false, 0);
    if (result != SPI_OK_INSERT)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
                        errmsg("could not insert into outbox.processed_events: %s",
                               SPI_result_code_string(result))));
    const bool inserted = SPI_processed == 1;
    SPI_finish();

    SetUserIdAndSecContext(user, context);
    return inserted;
}

} // namespace

} // namespace outbox

extern "C"
{
    OUTBOX_FUNCTION(outbox_mark_processed);

    Datum outbox_mark_processed(PG_FUNCTION_ARGS)
    {
        if (PG_ARGISNULL(0))
            ereport(ERROR,
                    (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("event_id must not be null"),
                     errhint("Pass the Kafka record's header id.")));
        if (PG_ARGISNULL(1) || VARSIZE_ANY_EXHDR(PG_GETARG_TEXT_PP(1)) == 0)
            ereport(ERROR,
                    (errcode(PG_ARGISNULL(1) ? ERRCODE_NULL_VALUE_NOT_ALLOWED
                                             : ERRCODE_INVALID_PARAMETER_VALUE),
                     errmsg("consumer must not be %s", PG_ARGISNULL(1) ? "null" : "empty"),
                     errhint("Name the consumer, so that each one processes the event once.")));
        PG_RETURN_BOOL(outbox::insert_as_owner(PG_GETARG_DATUM(1), PG_GETARG_DATUM(0)));
    }
}
