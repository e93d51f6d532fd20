// What a sink has to know of an event, from the headers that the relay gives every record, in
// either format.
#pragma once

#include "bgworker/engine/record.h"
#include "extension/core/event_template.h"

#include <initializer_list>

namespace outbox
{

// The first that is not null and has one of these names: the relay's own come before the caller's.
inline std::string_view
find_header(const Record &record, std::initializer_list<std::string_view> names) noexcept
{
    for (std::size_t i = 0; i < record.header_count; i++)
        for (const std::string_view name : names)
            if (record.headers[i].name == name && !record.headers[i].is_null)
                return record.headers[i].value;
    return {};
}

inline std::string_view
id_of(const Record &record) noexcept
{
    return find_header(record, {"id", "ce_id"});
}

inline EventNames
names_of(const Record &record) noexcept
{
    return {record.topic, find_header(record, {"aggregate_type", "ce_aggregatetype"}),
            find_header(record, {"event_type", "ce_type"}), record.key};
}

} // namespace outbox
