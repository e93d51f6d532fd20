// Checks of SQL functions' arguments: each raises an error that names the argument.
#pragma once

#include "pg.h"

namespace outbox
{

// The longest consumer, scope and key, in characters: short enough for an index entry in every
// encoding.
constexpr int kMaxNameLength = 255;

// Raises null_value_not_allowed if argument n is null.
void check_not_null(FunctionCallInfo fcinfo, int n, const char *name, const char *hint);

// Argument n, if it is neither null nor empty nor longer than kMaxNameLength.
text *checked_name(FunctionCallInfo fcinfo, int n, const char *name, const char *hint);

// checked_name() for the name of a consumer.
text *checked_consumer(FunctionCallInfo fcinfo, int n);

// How long an interval is: days have 24 hours and months 30 days, as when intervals are compared,
// whatever the clocks of the session's time zone do meanwhile. At least -most, and at most `most`,
// which leaves room for a day.
int64 microseconds_of(Datum interval, int64 most);

} // namespace outbox
