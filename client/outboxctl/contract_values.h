// Values as JSON Schema sees them: numbers count by their values, however they are written.
#pragma once

#include <cstdint>

#include <nlohmann/json.hpp>

namespace outbox::ctl
{

// All 64 bits of whole numbers, where this type has as many.
long double number_of(const nlohmann::json &value);
bool is_whole(const nlohmann::json &value);
// Whether it counts something, and what then: at most what 64 bits hold, and nothing has more.
bool is_count(const nlohmann::json &value);
std::uint64_t count_of(const nlohmann::json &value);
bool is_multiple(const nlohmann::json &value, const nlohmann::json &divisor);

bool is_equal(const nlohmann::json &a, const nlohmann::json &b);
bool has_equal_items(const nlohmann::json &list);

} // namespace outbox::ctl
