// JSON whose members keep the order in which they are documented.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

namespace outbox::ctl
{

using Json = nlohmann::ordered_json;

// The value, or null.
template <class Value>
Json
or_null(const std::optional<Value> &value)
{
    return value ? Json(*value) : Json(nullptr);
}

// One line of JSON; bytes that are no UTF-8 become U+FFFD.
std::string to_line(const Json &json);

} // namespace outbox::ctl
