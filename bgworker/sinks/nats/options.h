// NATS as the sink of a subscription.
#pragma once

#include "extension/core/sink_kinds.h"

#include "settings.h"

namespace outbox::nats
{

extern const SinkKind kSinkKind;

// Fills what of the settings the options say. Returns false and says why when they cannot be; then
// the settings are of no use. May throw std::bad_alloc.
bool read_options(const SinkOptions &options, Settings &settings, OptionFault &fault);

} // namespace outbox::nats
