// outbox.idempotency_begin(): decides which of the callers with the same key does the work. Runs as
// the owner. docs/idempotency.md says what is promised.

#include "key_hash.h"

#include "extension/server/arguments.h"
#include "extension/shared/lock_spaces.h"
#include "extension/trust/kept_statement.h"
#include "extension/trust/own_relations.h"

namespace outbox
{

namespace
{

constexpr int kOutColumns = 7;
constexpr int64 kSecondUs = 1000000;

const char *const kKeyHint = "Pass the request's header Idempotency-Key.";
const char *const kScopeHint = "Name the client and the operation, so that keys of different "
                               "clients do not meet.";

struct BeginRequest
{
    text *scope;
    text *key;
    bytea *hash;
    bool two_phase;
    TimestampTz now;
    TimestampTz expires_at;
    TimestampTz lease_until; // of two_phase only
};

// The row of a key. What is toasted lives as long as the SPI connection.
struct KeyRow
{
    bool found;
    bool same_hash;
    bool completed;
    bool leased;     // begun with two_phase
    bool begun_here; // by the current transaction
    TimestampTz lease_until;
    TimestampTz expires_at;
    pg_uuid_t owner;
    Datum response[4]; // status, response, content_type, headers
    bool response_null[4];
};

const Oid kKeyTypes[] = {TEXTOID, TEXTOID};
KeptStatement find_key = {
    "select owner, request_hash, lease_until, completed_at is not null, expires_at, xmin, "
    "status, response, content_type, headers "
    "from outbox.idempotency_keys where scope = $1 and key = $2",
    "read outbox.idempotency_keys", 2, kKeyTypes, nullptr};

const Oid kRowTypes[] = {TEXTOID,        TEXTOID,        BYTEAOID,      UUIDOID,
                         TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID};
KeptStatement insert_key = {
    "insert into outbox.idempotency_keys "
    "(scope, key, request_hash, owner, started_at, expires_at, lease_until) "
    "values ($1, $2, $3, $4, $5, $6, $7) on conflict do nothing",
    "insert into outbox.idempotency_keys", 7, kRowTypes, nullptr};

KeptStatement replace_key = {
    "update outbox.idempotency_keys set request_hash = $3, owner = $4, started_at = $5, "
    "expires_at = $6, lease_until = $7, completed_at = null, status = null, response = null, "
    "content_type = null, headers = null where scope = $1 and key = $2",
    "update outbox.idempotency_keys", 7, kRowTypes, nullptr};

// Takes the row if it is still as it was read, without waiting for anybody.
const Oid kLockTypes[] = {TEXTOID, TEXTOID, UUIDOID, TIMESTAMPTZOID};
KeptStatement lock_row = {
    "select from outbox.idempotency_keys where scope = $1 and key = $2 and owner = $3 "
    "and (completed_at is null or expires_at <= $4) for update skip locked",
    "lock a row of outbox.idempotency_keys", 4, kLockTypes, nullptr};

TimestampTz
later(TimestampTz now, FunctionCallInfo fcinfo, int n, const char *name)
{
    check_not_null(fcinfo, n, name, "Pass a positive interval.");
    const Datum given = PG_GETARG_DATUM(n);
    if (INTERVAL_IS_NOEND(DatumGetIntervalP(given)))
        return DT_NOEND;
    const int64 most = END_TIMESTAMP - 1 - now;
    const int64 us = microseconds_of(given, most);
    if (us <= 0 || us == most)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                 us <= 0 ? errmsg("%s must be positive", name) : errmsg("%s is too long", name),
                 errdetail("It is %s.", DatumGetCString(DirectFunctionCall1(interval_out, given))),
                 errhint("Pass an interval such as '24 h'.")));
    return now + us;
}

bool
is_two_phase(FunctionCallInfo fcinfo, int n)
{
    const char *const hint = "Modes are single_tx and two_phase.";
    check_not_null(fcinfo, n, "mode", hint);
    const char *mode = text_to_cstring(PG_GETARG_TEXT_PP(n));
    const bool two_phase = strcmp(mode, "two_phase") == 0;
    if (!two_phase && strcmp(mode, "single_tx") != 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("mode \"%.*s\" does not exist",
                               pg_mbcliplen(mode, static_cast<int>(strlen(mode)), 100), mode),
                        errhint("%s", hint)));
    return two_phase;
}

bytea *
checked_hash(FunctionCallInfo fcinfo, int n)
{
    const char *const hint = "outbox.request_hash() makes one.";
    check_not_null(fcinfo, n, "request_hash", hint);
    bytea *hash = PG_GETARG_BYTEA_PP(n);
    if (VARSIZE_ANY_EXHDR(hash) != kHashBytes)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("request_hash must have %d bytes", kHashBytes),
                        errdetail("It has %d.", static_cast<int>(VARSIZE_ANY_EXHDR(hash))),
                        errhint("%s", hint)));
    return hash;
}

BeginRequest
checked_request(FunctionCallInfo fcinfo)
{
    BeginRequest request = {};
    request.scope = checked_name(fcinfo, 0, "scope", kScopeHint);
    request.key = checked_name(fcinfo, 1, "key", kKeyHint);
    request.hash = checked_hash(fcinfo, 2);
    request.two_phase = is_two_phase(fcinfo, 4);
    request.now = GetCurrentTimestamp();
    request.expires_at = later(request.now, fcinfo, 3, "ttl");
    request.lease_until = later(request.now, fcinfo, 5, "lease");
    if (request.two_phase && TIMESTAMP_NOT_FINITE(request.lease_until))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("lease must be finite"),
                        errhint("No other caller could take the key over from one that is gone.")));
    if (request.two_phase && request.expires_at < request.lease_until)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("ttl must not be shorter than lease"),
                        errhint("The key would expire while its owner may still be at work.")));
    return request;
}

// A lock of this very key, by a hash for which no collision can be constructed. Of two keys with
// the same hash would only see each other as in progress.
LOCKTAG
lock_of(const BeginRequest &request)
{
    const varlena *parts[] = {request.scope, request.key};
    uint32 words[2];
    memcpy(words, VARDATA_ANY(hash_parts(parts, lengthof(parts))), sizeof(words));
    LOCKTAG tag;
    SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, words[0], words[1], kLocksOfRequestKeys);
    return tag;
}

Datum
column(int number, bool *is_null)
{
    return SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, number, is_null);
}

// At READ COMMITTED it sees all that is committed by now.
KeyRow
read_row(const BeginRequest &request)
{
    KeyRow row = {};
    Datum values[] = {PointerGetDatum(request.scope), PointerGetDatum(request.key)};
    if (run_statement(&find_key, values, nullptr, SPI_OK_SELECT) == 0)
        return row;
    bool is_null;
    row.found = true;
    row.owner = *DatumGetUUIDP(column(1, &is_null));
    const bytea *hash = DatumGetByteaPP(column(2, &is_null));
    row.same_hash = VARSIZE_ANY_EXHDR(hash) == kHashBytes &&
                    memcmp(VARDATA_ANY(hash), VARDATA_ANY(request.hash), kHashBytes) == 0;
    row.lease_until = DatumGetTimestampTz(column(3, &is_null));
    row.leased = !is_null;
    row.completed = DatumGetBool(column(4, &is_null));
    row.expires_at = DatumGetTimestampTz(column(5, &is_null));
    row.begun_here =
        TransactionIdIsCurrentTransactionId(DatumGetTransactionId(column(6, &is_null)));
    for (int i = 0; i < 4; i++)
        row.response[i] = column(7 + i, &row.response_null[i]);
    return row;
}

void
write_row(KeptStatement *statement, int expected, const BeginRequest &request, pg_uuid_t *owner,
          bool *written)
{
    Datum values[] = {
        PointerGetDatum(request.scope),          PointerGetDatum(request.key),
        PointerGetDatum(request.hash),           UUIDPGetDatum(owner),
        TimestampTzGetDatum(request.now),        TimestampTzGetDatum(request.expires_at),
        TimestampTzGetDatum(request.lease_until)};
    *written =
        run_statement(statement, values, request.two_phase ? nullptr : "      n", expected) == 1;
}

bool
claim_row(const BeginRequest &request, KeyRow *row)
{
    Datum values[] = {PointerGetDatum(request.scope), PointerGetDatum(request.key),
                      UUIDPGetDatum(&row->owner), TimestampTzGetDatum(request.now)};
    return run_statement(&lock_row, values, nullptr, SPI_OK_SELECT) == 1;
}

enum class Outcome
{
    started,
    taken_over,
    in_progress,
    mismatch,
    replay
};

const char *const kOutcomeNames[] = {"started", "taken_over", "in_progress", "mismatch", "replay"};

// What a row says without anything to be written; taken_over and started: it is to be replaced.
Outcome
outcome_of_row(const BeginRequest &request, const KeyRow &row)
{
    if (row.expires_at <= request.now)
        return Outcome::started;
    if (!row.same_hash)
        return Outcome::mismatch;
    if (row.completed)
        return Outcome::replay;
    // Of single_tx: visible to others only when its transaction has committed.
    if (!row.leased)
        return row.begun_here ? Outcome::in_progress : Outcome::replay;
    return row.lease_until > request.now ? Outcome::in_progress : Outcome::taken_over;
}

Outcome
begin_locked(const BeginRequest &request, KeyRow *row, pg_uuid_t *owner)
{
    bool written;
    *row = read_row(request);
    if (!row->found)
    {
        write_row(&insert_key, SPI_OK_INSERT, request, owner, &written);
        return written ? Outcome::started : Outcome::in_progress;
    }
    const Outcome outcome = outcome_of_row(request, *row);
    if (outcome != Outcome::started && outcome != Outcome::taken_over)
        return outcome;
    // A transaction that completes, releases or removes it just now is not waited for.
    if (!claim_row(request, row))
        return Outcome::in_progress;
    write_row(&replace_key, SPI_OK_UPDATE, request, owner, &written);
    return written ? outcome : Outcome::in_progress;
}

// The lock is held by another caller, which has begun or is about to.
Outcome
begin_unlocked(const BeginRequest &request, KeyRow *row)
{
    *row = read_row(request);
    if (!row->found)
        return Outcome::in_progress;
    const Outcome outcome = outcome_of_row(request, *row);
    return outcome == Outcome::replay || outcome == Outcome::mismatch ? outcome
                                                                      : Outcome::in_progress;
}

// How long to wait before asking again: to the end of the lease, or a second, as it is unknown how
// long a transaction takes.
Datum
retry_after(const BeginRequest &request, const KeyRow &row)
{
    Interval *wait = static_cast<Interval *>(palloc0(sizeof(Interval)));
    wait->time = kSecondUs;
    if (row.found && row.leased && row.lease_until > request.now + kSecondUs)
        wait->time = row.lease_until - request.now;
    return IntervalPGetDatum(wait);
}

// Copies what it takes from the row.
Datum
answer(TupleDesc desc, const BeginRequest &request, Outcome outcome, const KeyRow &row,
       pg_uuid_t *owner)
{
    Datum values[kOutColumns] = {};
    bool nulls[kOutColumns];
    memset(nulls, true, sizeof(nulls));
    values[0] = CStringGetTextDatum(kOutcomeNames[static_cast<int>(outcome)]);
    nulls[0] = false;
    if (outcome == Outcome::started || outcome == Outcome::taken_over)
    {
        values[1] = UUIDPGetDatum(owner);
        nulls[1] = false;
    }
    for (int i = 0; outcome == Outcome::replay && i < 4; i++)
    {
        values[2 + i] = row.response[i];
        nulls[2 + i] = row.response_null[i];
    }
    if (outcome == Outcome::in_progress)
    {
        values[6] = retry_after(request, row);
        nulls[6] = false;
    }
    return HeapTupleGetDatum(heap_form_tuple(desc, values, nulls));
}

} // namespace

} // namespace outbox

extern "C"
{
    OUTBOX_FUNCTION(outbox_idempotency_begin);

    Datum outbox_idempotency_begin(PG_FUNCTION_ARGS)
    {
        using namespace outbox;
        TupleDesc desc;
        if (get_call_result_type(fcinfo, nullptr, &desc) != TYPEFUNC_COMPOSITE)
            ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                            errmsg("outbox.idempotency_begin() returns a row")));
        desc = BlessTupleDesc(desc);
        const BeginRequest request = checked_request(fcinfo);
        refuse_unlogged("idempotency_keys",
                        "A crash would empty it, and requests would be done again.");
        // What follows is done elsewhere: a crash must not forget that it was begun.
        if (request.two_phase)
            ForceSyncCommit();
        MemoryContext caller = CurrentMemoryContext;
        const LOCKTAG tag = lock_of(request);
        pg_uuid_t *owner = DatumGetUUIDP(OidFunctionCall0(F_GEN_RANDOM_UUID));

        connect_spi();
        KeyRow row = {};
        Outcome outcome;
        if (LockAcquire(&tag, ExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
            outcome = begin_unlocked(request, &row);
        else
        {
            outcome = begin_locked(request, &row, owner);
            // Whoever does not do the work is in nobody's way.
            if (outcome != Outcome::started && outcome != Outcome::taken_over)
                (void) LockRelease(&tag, ExclusiveLock, false);
        }
        MemoryContext spi = MemoryContextSwitchTo(caller);
        const Datum result = answer(desc, request, outcome, row, owner);
        MemoryContextSwitchTo(spi);
        finish_spi();
        PG_RETURN_DATUM(result);
    }
}
