// Events that TRUNCATE or DELETE removed before they were published: counted, and logged once.
#pragma once

#include "extension/server/pg.h"

namespace outbox
{

void count_removed(int slot, int64 seq) noexcept;

// Logs those that were counted, once none was added since the call before.
void log_removed();

} // namespace outbox
