// The routes that the relay uses: outbox.routes and the settings that it falls back to, read
// together at one moment, so that a change splits the events of a key in two at one place.
#pragma once

#include "extension/core/routes.h"

#include "bgworker/source/events/event_reader.h"

#include "extension/emit/routes.h"

namespace outbox
{

// Reads the table and the settings; see load_routes(). In a transaction with a snapshot.
RoutesLoaded load_routing(Verdict *verdict);

// Whether there are routes to go by; none before the first load_routing() that was good.
bool is_routing_known();

// The row for an event of these types; null: as the settings say.
const Route *route_of(std::string_view aggregate_type, std::string_view event_type);

// The topic by a row that route_of() gave.
TopicName topic_by(const Route *route, std::string_view aggregate_type, std::string_view event_type,
                   char *buffer, size_t capacity);

HeadersFormat headers_by(const Route *route);

// The CloudEvents attribute source, in UTF-8.
std::string_view event_source();

} // namespace outbox
