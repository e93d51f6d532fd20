// outbox.stats and its kin: what the relay has counted, from shared memory.

#include <limits>

#include "extension/server/result_row.h"
#include "extension/shared/stats_memory.h"

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
    TimestampTz reset_at; // 0: nothing was ever counted here
    int count;
    int next;
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
copy_area()
{
    Copy *copy = static_cast<Copy *>(palloc0(offsetof(Copy, rows) + sizeof(TopicRow) * kStatsRows));
    StatsArea *area = find_stats_area(MyDatabaseId);
    if (area == nullptr)
        return copy;
    LWLockAcquire(stats_lock(area), LW_SHARED);
    if (area->database == MyDatabaseId)
    {
        copy->reset_at = area->reset_at;
        for (const TopicRow &row : area->rows)
            if (row.topic[0] != '\0')
                copy->rows[copy->count++] = row;
    }
    LWLockRelease(stats_lock(area));
    return copy;
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

struct Histograms
{
    const char *names[2];
    const LatencyHistogram *histograms[2];
    int next;
};

Datum
histogram_row(const Histograms &all, TupleDesc desc)
{
    const int which = all.next / kBounds;
    const int bound = all.next % kBounds;
    const LatencyHistogram &histogram = *all.histograms[which];
    const bool last = bound == kBounds - 1;
    const uint64 us = static_cast<uint64>(1) << (kFirstPower + bound);
    ResultRow row;
    row.add_text(all.names[which]);
    row.add(Float8GetDatum(last ? std::numeric_limits<double>::infinity()
                                : static_cast<double>(us) / 1e6));
    add_count(&row, last ? histogram.total() : histogram.below(us));
    return row.as_datum(desc);
}

} // namespace

} // namespace outbox

extern "C"
{
    OUTBOX_FUNCTION(outbox_topic_stats);
    OUTBOX_FUNCTION(outbox_database_stats);
    OUTBOX_FUNCTION(outbox_latency_histograms);
    OUTBOX_FUNCTION(outbox_stats_reset);

    Datum outbox_topic_stats(PG_FUNCTION_ARGS)
    {
        using namespace outbox;
        FuncCallContext *calls;
        if (SRF_IS_FIRSTCALL())
        {
            calls = SRF_FIRSTCALL_INIT();
            const MemoryContext outer = MemoryContextSwitchTo(calls->multi_call_memory_ctx);
            calls->tuple_desc = result_type(fcinfo, kCountColumns + 1);
            calls->user_fctx = copy_area();
            (void) MemoryContextSwitchTo(outer);
        }
        calls = SRF_PERCALL_SETUP();
        Copy *copy = static_cast<Copy *>(calls->user_fctx);
        if (copy->next == copy->count)
            SRF_RETURN_DONE(calls);
        const TopicRow &topic = copy->rows[copy->next++];
        ResultRow row;
        row.add_text(topic.topic);
        add_counts(&row, topic.counts, copy->reset_at);
        SRF_RETURN_NEXT(calls, row.as_datum(calls->tuple_desc));
    }

    Datum outbox_database_stats(PG_FUNCTION_ARGS)
    {
        using namespace outbox;
        TupleDesc desc = result_type(fcinfo, kCountColumns + 1);
        const Copy *copy = copy_area();
        ResultRow row;
        row.add(Int32GetDatum(copy->count));
        add_counts(&row, *total_of(copy), copy->reset_at);
        PG_RETURN_DATUM(row.as_datum(desc));
    }

    Datum outbox_latency_histograms(PG_FUNCTION_ARGS)
    {
        using namespace outbox;
        FuncCallContext *calls;
        if (SRF_IS_FIRSTCALL())
        {
            calls = SRF_FIRSTCALL_INIT();
            const MemoryContext outer = MemoryContextSwitchTo(calls->multi_call_memory_ctx);
            calls->tuple_desc = result_type(fcinfo, 3);
            const TopicCounts *total = total_of(copy_area());
            Histograms *all = static_cast<Histograms *>(palloc0(sizeof(Histograms)));
            *all = {{"created_to_acked", "sent_to_acked"},
                    {&total->created_to_acked, &total->sent_to_acked},
                    0};
            calls->user_fctx = all;
            (void) MemoryContextSwitchTo(outer);
        }
        calls = SRF_PERCALL_SETUP();
        Histograms *all = static_cast<Histograms *>(calls->user_fctx);
        if (all->next == 2 * kBounds)
            SRF_RETURN_DONE(calls);
        const Datum row = histogram_row(*all, calls->tuple_desc);
        all->next++;
        SRF_RETURN_NEXT(calls, row);
    }

    Datum outbox_stats_reset(PG_FUNCTION_ARGS)
    {
        using namespace outbox;
        (void) fcinfo;
        StatsArea *area = find_stats_area(MyDatabaseId);
        if (area == nullptr)
            PG_RETURN_VOID();
        LWLockAcquire(stats_lock(area), LW_EXCLUSIVE);
        if (area->database == MyDatabaseId)
            clear_stats_area(area, MyDatabaseId);
        LWLockRelease(stats_lock(area));
        PG_RETURN_VOID();
    }
}
