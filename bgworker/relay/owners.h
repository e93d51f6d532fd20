// Whose code the relay would run. It works as a superuser, and whoever owns one of the extension's
// objects, or their schema, can attach code to it: triggers, expressions, a view's or a function's
// body.
#pragma once

namespace outbox
{

// Stops the relay, for a person to see to it, while extension/trust.h says that others than
// superusers could. At the beginning of each transaction, before anything is used. The launcher
// starts it again now and then, so that it continues when this has been put right.
void refuse_foreign_owners();

} // namespace outbox
