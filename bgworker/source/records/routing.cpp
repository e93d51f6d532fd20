#include "event_record.h"
#include "routing.h"
#include "wire.h"

#include "attempt.h"

#include "extension/shared/settings.h"

namespace outbox
{

namespace
{

// The settings of the moment when the routes were read.
TopicTemplate default_topic;
char source[3 * NAMEDATALEN * MAX_CONVERSION_GROWTH + 1001];
size_t source_length = 0;

void
set_source()
{
    const char *configured = settings.cloudevents_source;
    source_length = strlen(configured);
    if (source_length > 0)
    {
        strlcpy(source, configured, sizeof(source));
        return;
    }
    const char *name = get_database_name(MyDatabaseId);
    if (name == nullptr)
        name = "";
    // The name may have been given in another database's encoding: then its bytes, as they are.
    std::string_view converted = name;
    Failure ignored;
    (void) attempt([&] { converted = to_utf8(name); }, &ignored);
    source_length = default_source(converted, source);
}

} // namespace

RoutesLoaded
load_routing(Verdict *verdict)
{
    const RoutesLoaded loaded = load_routes(false, verdict);
    if (loaded == RoutesLoaded::current)
        default_topic = topic_template();
    set_source();
    return loaded;
}

bool
is_routing_known()
{
    return routes() != nullptr;
}

const Route *
route_of(std::string_view aggregate_type, std::string_view event_type)
{
    const RouteTable *table = routes();
    if (table == nullptr || table->empty())
        return nullptr;
    const RouteTable::Entry *entry = table->find(aggregate_type, event_type);
    return entry != nullptr ? &entry->route : nullptr;
}

TopicName
topic_by(const Route *route, std::string_view aggregate_type, std::string_view event_type,
         char *buffer, size_t capacity)
{
    const TopicTemplate &topic =
        route != nullptr && route->has_topic ? route->topic : default_topic;
    return topic.expand(aggregate_type, event_type, buffer, capacity);
}

HeadersFormat
headers_by(const Route *route)
{
    const HeadersFormat by_default = static_cast<HeadersFormat>(settings.headers_format);
    return route != nullptr ? route->headers.value_or(by_default) : by_default;
}

std::string_view
event_source()
{
    return {source, source_length};
}

} // namespace outbox
