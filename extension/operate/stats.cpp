// outbox.stats and its kin: what the relay has counted, from shared memory.

#include <limits>

#include "extension/server/result_row.h"
#include "extension/shared/stats_memory.h"
#include "extension/shared/subscription_slots.h"

extern "C"
{
#include "utils/builtins.h"
}

namespace outbox
{

namespace
{

constexpr double kUsPerMs = 1000.0;
constexpr double kShares[] = {0.50, 0.95, 0.99};

// Columns after the topic, in the order of sql/stats.sql.
constexpr int kCountColumns = 22;

// The rows of an area that are in use, as of one moment.
struct Copy
{
    char subscription[NAMEDATALEN];
    TimestampTz reset_at; // 0: nothing was ever counted here
    int count;
    TopicRow rows[FLEXIBLE_ARRAY_MEMBER];
};

void
add_count(ResultRow *row, uint64 count, bool is_null = false)
{
    row->add(Int64GetDatum(static_cast<int64>(count)), is_null);
}

void
add_ms(ResultRow *row, uint64 us, bool is_null = false)
{
    row->add(Float8GetDatum(static_cast<double>(us) / kUsPerMs), is_null);
}

void
add_latency(ResultRow *row, const LatencyHistogram &histogram)
{
    const bool none = histogram.total() == 0;
    for (const double share : kShares)
        add_ms(row, histogram.quantile(share), none);
    add_ms(row, histogram.largest, none);
    add_ms(row, histogram.sum);
}

void
add_counts(ResultRow *row, const TopicCounts &counts, TimestampTz reset_at)
{
    add_count(row, counts.published);
    add_count(row, counts.bytes);
    add_count(row, counts.refused);
    add_count(row, counts.failed);
    add_count(row, counts.retried);
    add_count(row, counts.batches);
    for (const double share : kShares)
        add_count(row, counts.batch_events.quantile(share), counts.batches == 0);
    add_count(row, counts.batch_events.largest, counts.batches == 0);
    add_latency(row, counts.created_to_acked);
    add_latency(row, counts.sent_to_acked);
    row->add_time(counts.last_published_at);
    row->add_time(reset_at);
}

// In the current memory context. The lock is held for as long as the copying takes.
Copy *
copy_area(const char *subscription)
{
    Copy *copy = static_cast<Copy *>(palloc0(offsetof(Copy, rows) + sizeof(TopicRow) * kStatsRows));
    strlcpy(copy->subscription, subscription, sizeof(copy->subscription));
    StatsArea *area = find_stats_area(MyDatabaseId, subscription);
    if (area == nullptr)
        return copy;
    LWLockAcquire(stats_lock(area), LW_SHARED);
    if (is_stats_area_of(*area, MyDatabaseId, subscription))
    {
        copy->reset_at = area->reset_at;
        for (const TopicRow &row : area->rows)
            if (row.topic[0] != '\0')
                copy->rows[copy->count++] = row;
    }
    LWLockRelease(stats_lock(area));
    return copy;
}

// The names of the subscriptions that have counted, `default` first, whether it has or not.
List *
counted_subscriptions()
{
    List *names = list_make1(pstrdup(kDefaultSubscription));
    for_each_stats_area(MyDatabaseId,
                        [&](StatsArea &area)
                        {
                            char name[NAMEDATALEN];
                            strlcpy(name, area.subscription, sizeof(name));
                            if (strcmp(name, kDefaultSubscription) != 0)
                                names = lappend(names, pstrdup(name));
                        });
    return names;
}

TopicCounts *
total_of(const Copy *copy)
{
    TopicCounts *total = static_cast<TopicCounts *>(palloc0(sizeof(TopicCounts)));
    for (int i = 0; i < copy->count; i++)
        total->merge(copy->rows[i].counts);
    return total;
}

// The bounds of outbox.stats_histogram: powers of two of a microsecond, then all.
constexpr int kFirstPower = 7; // 128 us
constexpr int kLastPower = 35; // 9.5 hours
constexpr int kBounds = kLastPower - kFirstPower + 2;

void
put_row(FunctionCallInfo fcinfo, ResultRow *row)
{
    ReturnSetInfo *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
    HeapTupleHeader tuple = DatumGetHeapTupleHeader(row->as_datum(result->setDesc));
    HeapTupleData data = {};
    data.t_len = HeapTupleHeaderGetDatumLength(tuple);
    data.t_data = tuple;
    tuplestore_puttuple(result->setResult, &data);
}

void
put_histogram(FunctionCallInfo fcinfo, const char *measure, const LatencyHistogram &histogram,
              const char *subscription)
{
    for (int bound = 0; bound < kBounds; bound++)
    {
        const bool last = bound == kBounds - 1;
        const uint64 us = static_cast<uint64>(1) << (kFirstPower + bound);
        ResultRow row;
        row.add_text(measure);
        row.add(Float8GetDatum(last ? std::numeric_limits<double>::infinity()
                                    : static_cast<double>(us) / 1e6));
        add_count(&row, last ? histogram.total() : histogram.below(us));
        row.add_text(subscription);
        put_row(fcinfo, &row);
    }
}

void
put_topics(FunctionCallInfo fcinfo, const Copy *copy)
{
    for (int i = 0; i < copy->count; i++)
    {
        ResultRow row;
        row.add_text(copy->rows[i].topic);
        add_counts(&row, copy->rows[i].counts, copy->reset_at);
        row.add_text(copy->subscription);
        put_row(fcinfo, &row);
    }
}

// All topics together: a row of outbox.stats_total.
ResultRow
total_row(const Copy *copy)
{
    ResultRow row;
    row.add(Int32GetDatum(copy->count));
    add_counts(&row, *total_of(copy), copy->reset_at);
    row.add_text(copy->subscription);
    return row;
}

void
put_histograms(FunctionCallInfo fcinfo, const Copy *copy)
{
    const TopicCounts *total = total_of(copy);
    put_histogram(fcinfo, "created_to_acked", total->created_to_acked, copy->subscription);
    put_histogram(fcinfo, "sent_to_acked", total->sent_to_acked, copy->subscription);
}

// Calls f(fcinfo, Copy *) for each subscription; in versions of the extension that have one column
// less, for `default`. A copy is freed before the next is made: they are hundreds of kilobytes.
template <typename F>
void
for_each_counted(FunctionCallInfo fcinfo, int columns, F f)
{
    begin_returned_rows(fcinfo, false);
    const TupleDesc desc = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo)->setDesc;
    if (desc->natts != columns && desc->natts != columns - 1)
        (void) result_type(fcinfo, columns);
    const List *names = counted_subscriptions();
    const int count = desc->natts == columns ? list_length(names) : 1;
    const MemoryContext one = AllocSetContextCreate(
        CurrentMemoryContext, "statistics of a subscription", ALLOCSET_DEFAULT_SIZES);
    for (int i = 0; i < count; i++)
    {
        const MemoryContext outer = MemoryContextSwitchTo(one);
        f(fcinfo, copy_area(static_cast<const char *>(list_nth(names, i))));
        (void) MemoryContextSwitchTo(outer);
        MemoryContextReset(one);
    }
    MemoryContextDelete(one);
}

void
reset_area(StatsArea &area, const char *subscription)
{
    LWLockAcquire(stats_lock(&area), LW_EXCLUSIVE);
    if (area.database == MyDatabaseId &&
        (subscription == nullptr || is_stats_area_of(area, MyDatabaseId, subscription)))
        clear_stats_area(&area);
    LWLockRelease(stats_lock(&area));
}

// By its place in shared memory: whoever resets may not read the table.
bool
is_subscription(const char *name)
{
    DatabaseSlot *slot = find_slot(MyDatabaseId);
    return strcmp(name, kDefaultSubscription) == 0 ||
           (slot != nullptr && find_subscription(*slot, name) != nullptr);
}

} // namespace

} // namespace outbox

extern "C"
{
    OUTBOX_FUNCTION(outbox_topic_stats);
    OUTBOX_FUNCTION(outbox_database_stats); // of versions before 0.3
    OUTBOX_FUNCTION(outbox_subscription_stats);
    OUTBOX_FUNCTION(outbox_latency_histograms);
    OUTBOX_FUNCTION(outbox_stats_reset);
    OUTBOX_FUNCTION(outbox_stats_reset_one);

    Datum outbox_topic_stats(PG_FUNCTION_ARGS)
    {
        using namespace outbox;
        for_each_counted(fcinfo, kCountColumns + 2, put_topics);
        return static_cast<Datum>(0);
    }

    Datum outbox_database_stats(PG_FUNCTION_ARGS)
    {
        using namespace outbox;
        TupleDesc desc = result_type(fcinfo, kCountColumns + 1);
        PG_RETURN_DATUM(total_row(copy_area(kDefaultSubscription)).as_datum(desc));
    }

    Datum outbox_subscription_stats(PG_FUNCTION_ARGS)
    {
        using namespace outbox;
        for_each_counted(fcinfo, kCountColumns + 2,
                         [](FunctionCallInfo call, const Copy *copy)
                         {
                             ResultRow row = total_row(copy);
                             put_row(call, &row);
                         });
        return static_cast<Datum>(0);
    }

    Datum outbox_latency_histograms(PG_FUNCTION_ARGS)
    {
        using namespace outbox;
        for_each_counted(fcinfo, 4, put_histograms);
        return static_cast<Datum>(0);
    }

    Datum outbox_stats_reset(PG_FUNCTION_ARGS)
    {
        using namespace outbox;
        (void) fcinfo;
        for_each_stats_area(MyDatabaseId, [](StatsArea &area) { reset_area(area, nullptr); });
        PG_RETURN_VOID();
    }

    Datum outbox_stats_reset_one(PG_FUNCTION_ARGS)
    {
        using namespace outbox;
        const char *name = text_to_cstring(PG_GETARG_TEXT_PP(0));
        StatsArea *area = find_stats_area(MyDatabaseId, name);
        if (area != nullptr)
            reset_area(*area, name);
        else if (!is_subscription(name))
            ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
                            errmsg("there is no subscription \"%s\"", name),
                            errhint("The view outbox.subscription_status shows which there are.")));
        PG_RETURN_VOID();
    }
}
