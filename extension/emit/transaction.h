// What the current transaction has emitted so far, and what happens when it ends.
#pragma once

#include "extension/server/pg.h"

namespace outbox
{

// Registers the transaction callbacks; once, from _PG_init.
void register_transaction_callbacks();

// Notes one emitted event. At commit the relay is woken and the event counted as backlog.
// An id that is not chosen was made for this event, after all others of the session.
// Raises ERRCODE_UNIQUE_VIOLATION when this transaction already emitted an event under a chosen id.
void add_event(const pg_uuid_t *id, bool chosen);

// Whether the current transaction has emitted anything that is not rolled back.
bool transaction_has_emitted();

// How many events that are not rolled back the current transaction has emitted.
int64 events_of_transaction();

// Makes the relay look at outbox.deliveries and outbox.pauses, at commit.
void notify_relay_at_commit();

// Makes the relay look for rows of a dump before it publishes what is committed later, at commit.
void note_restored_rows_at_commit();
// The same of an event with this number: later ones get larger numbers.
void note_restored_event_at_commit(int64 seq);

// Asks the launcher, at commit, to look at this database.
void request_relay_at_commit();

} // namespace outbox
