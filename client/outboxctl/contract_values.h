// Values as JSON Schema sees them: numbers count by their values, however they are written.
#pragma once

#include <nlohmann/json.hpp>

namespace outbox::ctl
{

// All 64 bits of whole numbers, where this type has as many.
long double number_of(const nlohmann::json &value);
bool is_whole(const nlohmann::json &value);
bool is_multiple(const nlohmann::json &value, const nlohmann::json &divisor);

bool is_equal(const nlohmann::json &a, const nlohmann::json &b);
bool has_equal_items(const nlohmann::json &list);

} // namespace outbox::ctl
