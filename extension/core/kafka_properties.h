// Which librdkafka properties an operator may set, and which of them are secret.
#pragma once

#include <string_view>

namespace outbox
{

// Returns false for a property that would break a promise of outbox, would stop the relay from
// seeing what happened to its records, or belongs to the Java client; then sets both texts (static,
// never the value): `reason` completes the sentence "property ... ", `hint` is a sentence.
bool property_allowed(std::string_view name, std::string_view value, const char **reason,
                      const char **hint) noexcept;

// Whether the value of this property may be a secret and must not be logged or shown.
// Goes by words in the name, so that misspelt and future properties are covered too.
bool is_secret(std::string_view name) noexcept;

} // namespace outbox
