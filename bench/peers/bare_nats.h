// A bare publisher with libnats: what JetStream and the library allow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace outbox::bench
{

// Publishes so many of the benchmark's events asynchronously, with the headers that the relay
// sends, each key in its turn; at most `window` messages are not acknowledged. Returns the seconds
// from its start to the last acknowledgement. `run` makes the ids its own.
double publish_bare_nats(const std::string &url, const std::string &subject, int64_t events,
                         std::size_t window, int run);

} // namespace outbox::bench
