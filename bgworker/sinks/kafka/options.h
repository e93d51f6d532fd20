// Kafka as the sink of a subscription.
#pragma once

#include "extension/core/sink_kinds.h"

namespace outbox::kafka
{

extern const SinkKind kSinkKind;

} // namespace outbox::kafka
