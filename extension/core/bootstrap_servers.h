// The notation of outbox.bootstrap_servers.
#pragma once

#include "verdict.h"

#include <string_view>

namespace outbox
{

// Checks the comma-separated `host[:port]` list of outbox.bootstrap_servers; an IPv6 address stands
// in brackets; the port defaults to 9092. An empty text (no Kafka configured) is fine.
Verdict check_bootstrap_servers(std::string_view text) noexcept;

} // namespace outbox
