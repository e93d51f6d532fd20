// The relay's transactions: short, with a snapshot, never open while it waits for anything.
#pragma once

#include "extension/server/pg.h"

namespace outbox
{

// Ends the process while extension/trust/trust.h says that others than superusers could have their
// code run: the relay works as a superuser, and the owner of one of the extension's objects, or of
// their schema, can attach code to it: triggers, expressions, a view's or a function's body. The
// launcher starts it again every minute, so it continues when this is fixed.
void begin_transaction();
void end_transaction();

// Inside of a PG_CATCH block, or after from_postgres() has thrown: ends the transaction and gives
// the error as one text: what, message, SQLSTATE. Logs it if `log` says so.
void end_failed_transaction(const char *what, bool log, char *text, size_t size);

} // namespace outbox
