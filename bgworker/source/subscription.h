// Which subscription this process serves.
#pragma once

#include "extension/server/pg.h"

namespace outbox
{

// `default` until another one is named. The name must last as long as the process.
void serve_subscription(const char *name);
const char *subscription_name();
// What lines of the log begin with: `outbox relay`, and of which subscription unless `default`.
const char *relay_title();
// The same for a line that was written without it, and that begins with "outbox relay" or
// "outbox:". Palloc'd, unless it is `line` itself.
const char *titled(const char *line);
bool serves_default();
// 0 of `default`, and before its row was read.
TimestampTz subscription_created_at();

// For statements on what each subscription has for itself: its position, what it has set aside, its
// pause.
Datum subscription_datum();

// Its row of outbox.subscriptions; `default` has none.
enum class SubscriptionRow
{
    there,
    held,     // by a transaction that drops it, or gives it another filter
    detached, // it sends nothing until it is attached again
    missing
};
// Reads sink, options and filter. In a transaction with a snapshot; the first two are in its
// memory.
SubscriptionRow read_subscription(const char **sink, Datum *options);
// Of `default`, which has rows only once it was detached. When a copied database has forgotten its
// original's.
void read_default_history();
// `default` is detached: it passes all that commits, and needs no destination.
bool takes_nothing();
// Whether it is another one than was read, or missing.
bool subscription_changed();

// False: the extension was created again, where nobody has asked for the subscription.
bool is_extension_of_subscription();

// Whether the subscription takes an event of this transaction and of these types: they, or what
// they begin with, are in the lists that held when it was committed. Types are those of the row, or
// null.
bool takes_event(int64 xid, struct varlena *aggregate_type, struct varlena *event_type);

} // namespace outbox
