// Keeps the text of a statement that was refused for what it holds out of the server's log.
#pragma once

namespace outbox
{

// From _PG_init.
void install_statement_hiding();

// The next error or warning about `setting` is logged without the statement that it comes from,
// and without the context, which may quote it too. The client gets both.
void hide_statement_about(const char *setting);

} // namespace outbox
