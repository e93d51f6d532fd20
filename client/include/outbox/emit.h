// Emitting events in the caller's transaction.
#pragma once

#include <string>
#include <vector>

#include <libpq-fe.h>

#include "event.h"
#include "export.h"

namespace outbox
{
inline namespace v0
{

// Emits an event in the transaction that is open on `connection`, and returns its id. It is
// published if, and only if, that transaction commits. Without an open transaction the event is a
// transaction of its own.
//
// The connection stays the caller's: it is used for one statement, synchronously, and must be idle
// and not in pipeline mode. What `outbox.emit()` needs in the database is usage on the schema
// outbox and execute on the function (`outbox.emit_bytes` for Bytes).
//
// Throws UsageError (22023: a text with a zero byte; 55000: the connection is busy or in pipeline
// mode) before anything is sent, and DatabaseError with the SQLSTATE of outbox.emit(): 22023,
// 54000, 23505, 25006, 25P02 and so on. After a DatabaseError the transaction has failed, as after
// any error of SQL.
OUTBOX_API std::string emit(PGconn *connection, const Event &event);

// Emits the events in their order and returns their ids in the same order. They go to the server in
// a few statements, of at most about a thousand events or a megabyte each, without an answer being
// waited for per event. A transaction must be open (else UsageError 25P01), because an event that
// is refused takes all of them back. Other errors are those of emit().
OUTBOX_API std::vector<std::string> emit_many(PGconn *connection, const std::vector<Event> &events);

} // namespace v0
} // namespace outbox
