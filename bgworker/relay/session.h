// The settings of the relay's session: those of the server's configuration, and the database's own
// ones of outbox. Nothing else that ALTER ROLE and ALTER DATABASE have set: it works as the
// bootstrap superuser, and a database's owner, or who sets something for that role, does not mean
// the relay.
#pragma once

namespace outbox
{

// pg_cancel_backend() is meant for a query: the relay continues, as PostgreSQL's own background
// processes do. Before signals are let in.
void outlive_cancellation();

// Remembers what the server's configuration says: before the connection.
void keep_server_settings();

// After the connection: pins what the relay relies on, such as search_path, and takes back what
// roles and the database have set beside the server's configuration.
void prepare_session();

// Applies the settings of outbox that the database has. In a transaction with a snapshot.
void apply_database_settings();

// Of those that were applied last: the first whose value was refused, or null; and whether this is
// one of them.
const char *refused_of_database();
bool is_of_database(const char *name);

// Whether a role has settings of outbox, in place of which the process has what it found at its
// start: it does not hear of their changes.
bool has_dropped_own_settings();

} // namespace outbox
