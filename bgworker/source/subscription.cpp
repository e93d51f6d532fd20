#include "subscription.h"

#include "bgworker/source/spi_call.h"

#include "extension/core/type_pattern.h"
#include "extension/server/text_view.h"
#include "extension/trust/own_relations.h"

extern "C"
{
#include "utils/array.h"
#include "utils/datum.h"
}

namespace outbox
{

namespace
{

constexpr const char *kDefault = "default";
constexpr const char *kSelect =
    "select s.options, s.xmin::text, s.detached_at is not null, s.sink, "
    "s.created_at from outbox.subscriptions s where s.name = $1 "
    "for key share skip locked";
constexpr const char *kHistory =
    "select h.since, pg_snapshot_xmax(h.since)::text::bigint, h.takes, h.aggregate_types, "
    "h.event_types from outbox.subscription_history h where h.subscription = $1 "
    "order by h.number desc";
constexpr const char *kExists = "select from outbox.subscriptions s where s.name = $1";
constexpr const char *kSame =
    "select from outbox.subscriptions s where s.name = $1 and s.xmin::text = $2";

// Types that are taken; an end of `*` stands for whatever follows. Null: all are.
struct Filter
{
    Datum *types;
    int count;
};

// What holds for transactions that `since` does not see, up to those of a later row.
struct Span
{
    Datum since;
    int64 xmax; // of it
    bool takes;
    Filter aggregate_types;
    Filter event_types;
};

const char *served = kDefault;
char title[NAMEDATALEN + 40] = "outbox relay";
char version[16]; // of its row
TimestampTz created_at = 0;
Oid table;   // that its row was read from
Span *spans; // the last one first
int span_count;

// In TopMemoryContext, as all of a span.
Filter
read_filter(uint64 row, int column)
{
    bool is_null;
    const Datum list = spi_value(row, column, &is_null);
    if (is_null)
        return {};
    const MemoryContext before = MemoryContextSwitchTo(TopMemoryContext);
    Filter filter;
    deconstruct_array(DatumGetArrayTypePCopy(list), TEXTOID, -1, false, TYPALIGN_INT, &filter.types,
                      nullptr, &filter.count);
    (void) MemoryContextSwitchTo(before);
    return filter;
}

bool
takes(const Filter &filter, struct varlena *type)
{
    if (filter.types == nullptr)
        return true;
    if (type == nullptr)
        return false;
    const std::string_view name = text_view(DatumGetTextPP(PointerGetDatum(type)));
    for (int i = 0; i < filter.count; i++)
        if (matches_type(text_view(DatumGetTextPP(filter.types[i])), name))
            return true;
    return false;
}

// All of the rows that say what it takes from when on.
void
read_spans()
{
    Oid types[] = {TEXTOID};
    Datum values[] = {subscription_datum()};
    spi_execute(kHistory, 1, types, values, SPI_OK_SELECT);
    span_count = static_cast<int>(SPI_processed);
    spans = static_cast<Span *>(
        MemoryContextAlloc(TopMemoryContext, sizeof(Span) * static_cast<Size>(span_count + 1)));
    for (int i = 0; i < span_count; i++)
    {
        const MemoryContext before = MemoryContextSwitchTo(TopMemoryContext);
        const Datum since = datumCopy(spi_value(i, 1), false, -1);
        (void) MemoryContextSwitchTo(before);
        spans[i] = {since, DatumGetInt64(spi_value(i, 2)), DatumGetBool(spi_value(i, 3)),
                    read_filter(i, 4), read_filter(i, 5)};
    }
}

bool
is_seen_by(int64 xid, const Span &span)
{
    return xid < span.xmax &&
           DatumGetBool(DirectFunctionCall2(
               pg_visible_in_snapshot,
               FullTransactionIdGetDatum(FullTransactionIdFromU64(static_cast<uint64>(xid))),
               span.since));
}

} // namespace

void
serve_subscription(const char *name)
{
    served = name;
    snprintf(title, sizeof(title), "outbox relay of subscription \"%s\"", name);
}

const char *
relay_title()
{
    return title;
}

const char *
titled(const char *line)
{
    constexpr size_t kRelay = sizeof("outbox relay") - 1;
    constexpr size_t kOutbox = sizeof("outbox:") - 1;
    if (serves_default())
        return line;
    if (strncmp(line, "outbox relay", kRelay) == 0)
        return psprintf("%s%s", title, line + kRelay);
    if (strncmp(line, "outbox:", kOutbox) == 0)
        return psprintf("outbox subscription \"%s\":%s", served, line + kOutbox);
    return line;
}

const char *
subscription_name()
{
    return served;
}

bool
serves_default()
{
    return served == kDefault;
}

TimestampTz
subscription_created_at()
{
    return created_at;
}

Datum
subscription_datum()
{
    return CStringGetTextDatum(served);
}

SubscriptionRow
read_subscription(const char **sink, Datum *options)
{
    Oid types[] = {TEXTOID};
    Datum values[] = {subscription_datum()};
    const MemoryContext outer = CurrentMemoryContext;
    SubscriptionRow row = SubscriptionRow::there;
    table = find_own_relation("subscriptions");
    spi_connect();
    spi_execute(kSelect, 1, types, values, SPI_OK_SELECT);
    if (SPI_processed == 1)
    {
        const MemoryContext inner = MemoryContextSwitchTo(outer);
        *options = PointerGetDatum(PG_DETOAST_DATUM_COPY(spi_first(1)));
        *sink = pstrdup(spi_first_text(4));
        (void) MemoryContextSwitchTo(inner);
        strlcpy(version, spi_first_text(2), sizeof(version));
        created_at = DatumGetTimestampTz(spi_first(5));
        if (DatumGetBool(spi_first(3)))
            row = SubscriptionRow::detached;
        read_spans();
    }
    else
    {
        spi_execute(kExists, 1, types, values, SPI_OK_SELECT);
        row = SPI_processed > 0 ? SubscriptionRow::held : SubscriptionRow::missing;
    }
    SPI_finish();
    return row;
}

bool
subscription_changed()
{
    Oid types[] = {TEXTOID, TEXTOID};
    Datum values[] = {subscription_datum(), CStringGetTextDatum(version)};
    spi_connect();
    static SPIPlanPtr plan = nullptr;
    spi_execute_kept(&plan, kSame, 2, types, values, SPI_OK_SELECT);
    const bool same = SPI_processed > 0;
    SPI_finish();
    return !same;
}

bool
is_extension_of_subscription()
{
    return serves_default() || find_own_relation("subscriptions") == table;
}

void
read_default_history()
{
    spi_connect();
    read_spans();
    SPI_finish();
}

bool
takes_nothing()
{
    return serves_default() && span_count > 0 && !spans[0].takes;
}

bool
takes_event(int64 xid, struct varlena *aggregate_type, struct varlena *event_type)
{
    for (int i = 0; i < span_count; i++)
        if (!is_seen_by(xid, spans[i]))
            return spans[i].takes && takes(spans[i].aggregate_types, aggregate_type) &&
                   takes(spans[i].event_types, event_type);
    return serves_default(); // which takes all unless somebody has detached it
}

} // namespace outbox
