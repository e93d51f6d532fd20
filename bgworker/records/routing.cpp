#include "bgworker/core/lanes.h"
#include "bgworker/kafka/failure.h"

#include "event_record.h"
#include "routing.h"
#include "wire.h"

#include "attempt.h"

#include "bgworker/redelivery/delivery_store.h"

#include "bgworker/spi_call.h"

#include "extension/settings.h"

namespace outbox
{

namespace
{

constexpr int kMovesAtOnce = 1024;

constexpr const char *kSetAside =
    "select d.seq, d.xid, d.slot, d.topic from outbox.deliveries d "
    "where d.seq operator(pg_catalog.>) $1 and d.state operator(pg_catalog.<>) 'DISCARDED' "
    "order by d.seq limit $2";

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
    kafka::Failure ignored;
    (void) attempt([&] { converted = to_utf8(name); }, &ignored);
    source_length = default_source(converted, source);
}

// Moves one event to another topic if it is to go there.
void
move_one(EventTables *tables, int64 seq, int64 xid, int slot, std::string_view topic)
{
    EventRow event;
    EventLine line;
    kafka::Failure ignored; // it stays where it is, and is told when it is sent
    if (find_event(tables, slot, xid, seq, GetCurrentTimestamp(), &event) &&
        read_line(event, &line, &ignored) && line.topic != topic)
        move_to_topic(seq, line.topic, key_lane(line.topic, line.key));
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

int64
move_set_aside(EventTables *tables, int64 after)
{
    Oid types[] = {INT8OID, INT8OID};
    Datum values[] = {Int64GetDatum(after), Int64GetDatum(kMovesAtOnce)};
    spi_connect();
    spi_execute(kSetAside, 2, types, values, SPI_OK_SELECT);
    SPITupleTable *rows = SPI_tuptable;
    const uint64 count = SPI_processed;
    for (uint64 i = 0; i < count; i++)
    {
        bool is_null;
        const auto value = [&](int column)
        { return SPI_getbinval(rows->vals[i], rows->tupdesc, column, &is_null); };
        after = DatumGetInt64(value(1));
        move_one(tables, after, DatumGetInt64(value(2)), DatumGetInt16(value(3)),
                 text_view(DatumGetTextPP(value(4))));
    }
    SPI_finish();
    return count < kMovesAtOnce ? PG_INT64_MAX : after;
}

} // namespace outbox
