#include "subscription.h"

#include "bgworker/source/spi_call.h"

#include "extension/server/text_view.h"

extern "C"
{
#include "utils/array.h"
}

namespace outbox
{

namespace
{

constexpr const char *kDefault = "default";
constexpr const char *kSelect = "select s.options, s.aggregate_types, s.event_types, s.xmin::text, "
                                "s.created_at from outbox.subscriptions s where s.name = $1 "
                                "for key share skip locked";
constexpr const char *kExists = "select from outbox.subscriptions s where s.name = $1";
constexpr const char *kSame =
    "select from outbox.subscriptions s where s.name = $1 and s.xmin::text = $2";

// Types that are taken; an end of `*` stands for whatever follows. Null: all are.
struct Filter
{
    Datum *types;
    int count;
};

const char *served = kDefault;
char title[NAMEDATALEN + 40] = "outbox relay";
char version[16]; // of its row
TimestampTz created_at = 0;
Filter aggregate_types;
Filter event_types;

Filter
read_filter(int column)
{
    bool is_null;
    const Datum list = spi_first(column, &is_null);
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
matches(std::string_view pattern, std::string_view type)
{
    if (pattern.empty() || pattern.back() != '*')
        return pattern == type;
    return type.substr(0, pattern.size() - 1) == pattern.substr(0, pattern.size() - 1);
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
        if (matches(text_view(DatumGetTextPP(filter.types[i])), name))
            return true;
    return false;
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
read_subscription(Datum *options)
{
    Oid types[] = {TEXTOID};
    Datum values[] = {subscription_datum()};
    const MemoryContext outer = CurrentMemoryContext;
    SubscriptionRow row = SubscriptionRow::there;
    spi_connect();
    spi_execute(kSelect, 1, types, values, SPI_OK_SELECT);
    if (SPI_processed == 1)
    {
        const MemoryContext inner = MemoryContextSwitchTo(outer);
        *options = PointerGetDatum(PG_DETOAST_DATUM_COPY(spi_first(1)));
        (void) MemoryContextSwitchTo(inner);
        aggregate_types = read_filter(2);
        event_types = read_filter(3);
        strlcpy(version, spi_first_text(4), sizeof(version));
        created_at = DatumGetTimestampTz(spi_first(5));
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
takes_event(struct varlena *aggregate_type, struct varlena *event_type)
{
    return takes(aggregate_types, aggregate_type) && takes(event_types, event_type);
}

} // namespace outbox
