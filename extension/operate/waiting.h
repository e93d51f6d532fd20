// How a session waits for the relay of a subscription.
#pragma once

#include "deadline.h"

#include "extension/trust/kept_statement.h"

namespace outbox
{

struct Awaited
{
    const char *subscription; // null: `default`
    Datum xid;                // of an event
    Datum seq;
    Datum id;
};

// Looks at the tables, connected to SPI.
using Condition = bool (*)(Awaited &place);

// Runs a query of one row at most, with a snapshot of its own.
bool select_row(KeptStatement *statement, Datum *values);

// A look that holds nothing afterwards.
bool look(Condition condition, Awaited &place);
// False: the time is over. Needs what refuse_unfit_transaction() asks for.
bool wait_for(Condition condition, Awaited place, const Deadline &deadline);

// Raises feature_not_supported where the caller does not see what happens meanwhile, and
// object_not_in_prerequisite_state where it would wait for itself.
void refuse_unfit_transaction(const char *function);

// The attached ones of this name besides `default`; null: all. Holds nothing afterwards. Raises
// object_not_in_prerequisite_state when the one of the name is detached.
List *named_subscriptions(const char *name);
// Of `default`. Holds nothing afterwards.
bool default_is_detached();
[[noreturn]] void raise_detached(const char *name);
// Within a look: raises what the two above and below would when another one than `default` is
// detached or dropped by now, as whoever waits for it would wait in vain.
void require_attached(const Awaited &place);
// Null for `default`. Raises undefined_object unless there is one of this name.
char *existing_subscription(Datum argument);

} // namespace outbox
