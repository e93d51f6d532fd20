// The libraries of the sinks, which only relays load.
#pragma once

#include "extension/core/sink_kinds.h"

#include "for_relay.h"

#include "extension/server/pg.h"

namespace outbox
{

// Its file, in the current memory context.
OUTBOX_FOR_RELAY char *sink_library_path(const SinkKind &kind);
OUTBOX_FOR_RELAY bool has_sink_library(const SinkKind &kind);
// The package that has it for this PostgreSQL, in the current memory context.
OUTBOX_FOR_RELAY char *sink_package(const SinkKind &kind);

// The kind of this name. Raises invalid_parameter_value when there is none, and
// feature_not_supported when its library is not installed.
const SinkKind &usable_sink(const char *name);

// For the relay: the sinks that the library knows.
OUTBOX_FOR_RELAY const SinkKind *sink_kind(const char *name);

} // namespace outbox
