// The library of the sink that this relay's subscription has.
#pragma once

#include "bgworker/sinks/module.h"

#include "extension/core/sink_kinds.h"

namespace outbox
{

// Loads it from `path`; the same again later. Null and the reason, of class config, when it is not
// there or cannot be used; `package` is named in the hint.
const SinkModule *load_sink_library(const SinkKind &kind, const char *path, const char *package,
                                    Failure &why) noexcept;

} // namespace outbox
