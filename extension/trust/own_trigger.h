// What the extension's trigger functions need to know of how they were called. Whoever may use a
// function can attach it to any table, at any time.
#pragma once

#include "extension/server/pg.h"

namespace outbox
{

enum class Firing
{
    before_insert_row,
    any
};

// How one of our trigger functions was called: as a trigger of our table of that name, or of a
// partition of ours if that is `events`, and at the right time. Raises
// trigger_protocol_violated in all other cases. The columns are the caller's to check.
TriggerData *own_trigger(FunctionCallInfo fcinfo, const char *function, const char *table,
                         Firing firing);

// Whether an earlier or later trigger of this row is the one that counts, as the function was
// attached more than once. One that stays enabled and has no condition is preferred.
bool is_repeated(const TriggerData *data);

// The name of a trigger that will come after this one and could change its row, or null.
const char *later_trigger(const TriggerData *data);

// Whether the row may be another one than the statement gave: the name of a trigger that came
// before this one, or null.
const char *earlier_trigger(const TriggerData *data);

} // namespace outbox
