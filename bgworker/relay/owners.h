// Whose code the relay would run. It works as a superuser, and whoever owns one of the extension's
// objects can attach code to it: triggers, expressions of indexes, a view's or a function's body.
#pragma once

namespace outbox
{

// Stops the relay, for a person to see to it, when somebody who is no superuser owns one of the
// extension's relations or functions. At the beginning of each transaction, before anything of it
// is used; looks only when one of them, or a role, has changed.
void refuse_foreign_owners();

} // namespace outbox
