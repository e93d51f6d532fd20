// Settings that the server started without, see refused_settings.h.
#pragma once

#include "bgworker/engine/failure.h"

namespace outbox
{

// Whether a default holds in place of what was meant; then `why` says so. In a transaction.
bool holds_default(Failure *why);

} // namespace outbox
