// The properties of librdkafka that this version of outbox knows.
#pragma once

#include <string_view>

namespace outbox
{

// Without the prefix "topic.", which librdkafka takes before properties of topics. A newer
// librdkafka may have a property that loads code, runs a command or writes a file: what nobody has
// looked at is not known, and not allowed.
bool property_is_known(std::string_view name) noexcept;

} // namespace outbox
