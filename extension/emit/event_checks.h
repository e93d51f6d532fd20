// The checks that emit() and a plain INSERT share, so that nothing reaches the relay that Kafka is
// known to refuse.
#pragma once

#include "sent_size.h"

namespace outbox
{

// Raises an error that names the value and says what to do:
// null_value_not_allowed, invalid_parameter_value (empty names, both payloads, headers, topic),
// program_limit_exceeded (size, number of headers), configuration_limit_exceeded (see
// check_backlog()), and what sent_size() raises.
void check_event(const EventInput &event);

} // namespace outbox
