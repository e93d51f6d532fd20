// As all sinks have it.
#pragma once

#include "bgworker/sinks/signals_blocked.h"

namespace outbox::kafka
{

using outbox::SignalsBlocked;

} // namespace outbox::kafka
