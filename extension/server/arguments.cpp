#include "arguments.h"

namespace outbox
{

void
check_not_null(FunctionCallInfo fcinfo, int n, const char *name, const char *hint)
{
    if (PG_ARGISNULL(n))
        ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                        errmsg("%s must not be null", name), errhint("%s", hint)));
}

text *
checked_name(FunctionCallInfo fcinfo, int n, const char *name, const char *hint)
{
    check_not_null(fcinfo, n, name, hint);
    text *value = PG_GETARG_TEXT_PP(n);
    const int bytes = static_cast<int>(VARSIZE_ANY_EXHDR(value));
    if (bytes == 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("%s must not be empty", name), errhint("%s", hint)));
    // Only what has too many bytes can have too many characters.
    if (bytes > kMaxNameLength && pg_mbstrlen_with_len(VARDATA_ANY(value), bytes) > kMaxNameLength)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s is too long", name),
                        errdetail("It has %d characters, and %d are allowed.",
                                  pg_mbstrlen_with_len(VARDATA_ANY(value), bytes), kMaxNameLength),
                        errhint("Pass a hash of it, such as encode(sha256(...), 'hex').")));
    return value;
}

text *
checked_consumer(FunctionCallInfo fcinfo, int n)
{
    return checked_name(fcinfo, n, "consumer",
                        "Name the consumer, so that each one processes the event once.");
}

int64
microseconds_of(Datum interval, int64 most)
{
    const Interval *given = DatumGetIntervalP(interval);
    const int64 days = given->month * static_cast<int64>(DAYS_PER_MONTH) + given->day +
                       given->time / USECS_PER_DAY;
    const int64 most_days = most / USECS_PER_DAY;
    if (days > most_days + 1 || days < -most_days - 1)
        return days > 0 ? most : -most;
    const int64 sum = days * USECS_PER_DAY + given->time % USECS_PER_DAY;
    return Max(Min(sum, most), -most);
}

} // namespace outbox
