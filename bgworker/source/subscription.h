// Which subscription this process serves.
#pragma once

#include "extension/server/pg.h"

namespace outbox
{

// `default` until another one is named. The name must last as long as the process.
void serve_subscription(const char *name);
const char *subscription_name();
bool serves_default();

// For statements on what each subscription has for itself: its position, what it has set aside, its
// pause.
Datum subscription_datum();

// Its row of outbox.subscriptions; `default` has none.
enum class SubscriptionRow
{
    there,
    held, // by a transaction that changes or drops it
    missing
};
// Reads sink, options and filter. In a transaction with a snapshot; the first two are in its
// memory.
SubscriptionRow read_subscription(const char **sink, Datum *options);
// Whether it is another one than was read, or missing.
bool subscription_changed();

// Whether the subscription takes events of these types: they, or what they begin with, are in its
// lists. Types are those of the row, or null.
bool takes_event(struct varlena *aggregate_type, struct varlena *event_type);

} // namespace outbox
