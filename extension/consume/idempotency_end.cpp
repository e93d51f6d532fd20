// outbox.idempotency_complete() and idempotency_release(): what the owner of a key does with it.
// Both run as the owner of the tables.

#include "extension/server/arguments.h"
#include "extension/shared/settings.h"
#include "extension/trust/kept_statement.h"

namespace outbox
{

namespace
{

const Oid kEndTypes[] = {TEXTOID, TEXTOID, UUIDOID, INT4OID, BYTEAOID, TEXTOID, JSONBOID};

KeptStatement complete_key = {
    "update outbox.idempotency_keys set status = $4, response = $5, content_type = $6, "
    "headers = $7, completed_at = pg_catalog.clock_timestamp(), lease_until = null "
    "where scope = $1 and key = $2 and owner = $3 and completed_at is null",
    "complete a row of outbox.idempotency_keys", 7, kEndTypes, nullptr};

KeptStatement delete_key = {"delete from outbox.idempotency_keys where scope = $1 and key = $2 and "
                            "owner = $3 and completed_at is null",
                            "delete from outbox.idempotency_keys", 3, kEndTypes, nullptr};

KeptStatement find_owner = {
    "select owner = $3 from outbox.idempotency_keys where scope = $1 and key = $2",
    "read outbox.idempotency_keys", 3, kEndTypes, nullptr};

KeptStatement find_lease = {
    "select lease_until is not null from outbox.idempotency_keys where scope = $1 and key = $2",
    "read outbox.idempotency_keys", 2, kEndTypes, nullptr};

// The work of two_phase was done elsewhere: a crash must not forget that it was completed, or it
// would be done again when the lease is over. That of single_tx shares the fate of its answer.
void
keep_with_work(Datum *values)
{
    if (synchronous_commit != SYNCHRONOUS_COMMIT_OFF)
        return;
    connect_spi();
    bool is_null;
    if (run_statement(&find_lease, values, nullptr, SPI_OK_SELECT) == 1 &&
        DatumGetBool(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &is_null)))
        ForceSyncCommit();
    finish_spi();
}

const char *
why_not_held(Datum *values)
{
    if (run_statement(&find_owner, values, nullptr, SPI_OK_SELECT) == 0)
        return "There is no such key: it was released, it expired, or the transaction that began "
               "it was rolled back.";
    bool is_null;
    if (DatumGetBool(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &is_null)))
        return "It was completed before.";
    return "Another caller has begun or taken over the key since.";
}

[[noreturn]] void
refuse_owner(Datum *values)
{
    const char *detail = why_not_held(values);
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("idempotency key \"%s\" of scope \"%s\" is not held by this owner",
                           TextDatumGetCString(values[1]), TextDatumGetCString(values[0])),
                    errdetail("%s", detail),
                    errhint("Roll back, and ask outbox.idempotency_begin() again.")));
}

void
end_key(KeptStatement *statement, Datum *values, const char *nulls, int expected)
{
    connect_spi();
    if (run_statement(statement, values, nulls, expected) != 1)
        refuse_owner(values);
    finish_spi();
}

// Scope, key and owner.
void
read_holder(FunctionCallInfo fcinfo, Datum *values)
{
    const char *const hint = "Pass what outbox.idempotency_begin() was given, and its owner.";
    values[0] = PointerGetDatum(checked_name(fcinfo, 0, "scope", hint));
    values[1] = PointerGetDatum(checked_name(fcinfo, 1, "key", hint));
    check_not_null(fcinfo, 2, "owner", hint);
    values[2] = PG_GETARG_DATUM(2);
}

void
check_status(FunctionCallInfo fcinfo, int n)
{
    const char *const hint = "Pass the response's HTTP status.";
    check_not_null(fcinfo, n, "status", hint);
    const int status = PG_GETARG_INT32(n);
    if (status < 100 || status > 599)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("status %d is not valid", status),
                 errdetail("A status is between 100 and 599."), errhint("%s", hint)));
}

uint64
size_of(FunctionCallInfo fcinfo, int n)
{
    return PG_ARGISNULL(n) ? 0 : toast_raw_datum_size(PG_GETARG_DATUM(n)) - VARHDRSZ;
}

// Response, content type and headers from argument n on.
void
check_response(FunctionCallInfo fcinfo, int n)
{
    if (!PG_ARGISNULL(n + 2) && !JB_ROOT_IS_OBJECT(PG_GETARG_JSONB_P(n + 2)))
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("headers must be a JSON object"),
                 errhint("Pass an object such as {\"Location\": \"/orders/7\"}.")));
    const uint64 size = size_of(fcinfo, n) + size_of(fcinfo, n + 1) + size_of(fcinfo, n + 2);
    if (size > static_cast<uint64>(settings.max_response_bytes))
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("response is too large"),
                        errdetail("Response, content type and headers have " UINT64_FORMAT
                                  " bytes, and outbox.max_response_size is %d.",
                                  size, settings.max_response_bytes),
                        errhint("Store less, such as where the result is to be found, or raise "
                                "outbox.max_response_size.")));
}

} // namespace

} // namespace outbox

extern "C"
{
    OUTBOX_FUNCTION(outbox_idempotency_complete);
    OUTBOX_FUNCTION(outbox_idempotency_release);

    Datum outbox_idempotency_complete(PG_FUNCTION_ARGS)
    {
        Datum values[7];
        char nulls[8] = "       ";
        outbox::read_holder(fcinfo, values);
        outbox::check_status(fcinfo, 3);
        outbox::check_response(fcinfo, 4);
        for (int n = 3; n < 7; n++)
        {
            values[n] = PG_ARGISNULL(n) ? static_cast<Datum>(0) : PG_GETARG_DATUM(n);
            nulls[n] = PG_ARGISNULL(n) ? 'n' : ' ';
        }
        outbox::keep_with_work(values);
        outbox::end_key(&outbox::complete_key, values, nulls, SPI_OK_UPDATE);
        PG_RETURN_VOID();
    }

    Datum outbox_idempotency_release(PG_FUNCTION_ARGS)
    {
        Datum values[3];
        outbox::read_holder(fcinfo, values);
        outbox::end_key(&outbox::delete_key, values, nullptr, SPI_OK_DELETE);
        PG_RETURN_VOID();
    }
}
