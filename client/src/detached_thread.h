// Threads that may outlive everything else, main() included.
#pragma once

#include <functional>

#include "outbox/export.h"

namespace outbox::v0::detail
{

// Starts a thread for something that may wait without end, and which owns all that it uses. It gets
// none of the application's signals. The library that this code is in is never unloaded from then
// on, also where it is part of a plugin. `task` throws nothing. Throws SystemError.
void start_detached(std::function<void()> task);

// The same without a thread, for what else calls this code from outside.
void stay_loaded();

} // namespace outbox::v0::detail
