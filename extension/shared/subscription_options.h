// The options of a subscription: common ones, which are settings of ours by their names without the
// prefix, and those of its sink.
#pragma once

#include "extension/core/sink_kinds.h"

#include "max_lag.h"

#include "extension/server/pg.h"

extern "C"
{
#include "utils/jsonb.h"
}

namespace outbox
{

// Raises invalid_parameter_value for an unknown option, or what its sink says of them, and the
// error of the setting for a value that it does not take.
void check_subscription_options(const SinkKind &kind, Jsonb *options);

// Applies those that are settings to this process. Those that say how the destination is reached
// are not taken from the settings: these are of another one. One that is not usable any more is
// left out with a warning.
OUTBOX_FOR_RELAY void apply_subscription_options(const SinkKind &kind, Jsonb *options);

// One of a sink's own options, as plain values in the current memory context.
struct PlainOption
{
    const char *name;
    OptionValue::Kind kind;
    const char *text;           // null for an object
    const char *const *members; // of an object: name and value in turn, ends with null
};

// The sink's own options, in UTF-8; of those that are settings, when they are `applied`, what these
// say now. Options may be null: those of `default`. Ends with a null name.
OUTBOX_FOR_RELAY PlainOption *sink_options(const SinkKind &kind, Jsonb *options, bool applied);

// The same as an object. Calls nothing of PostgreSQL; may throw std::bad_alloc.
OUTBOX_FOR_RELAY void fill_options(const PlainOption *from, SinkOptions &options);

} // namespace outbox
