// What relays count, in shared memory: an area for each subscription that has had a relay.
#pragma once

#include "extension/core/log_histogram.h"

#include "for_relay.h"
#include "shared_state.h"

#include "extension/server/pg.h"

namespace outbox
{

// Areas of all databases together, if so many relays can run: some 400 kB each.
constexpr int kMostStatsAreas = 128;

// Topics of an area that are counted for themselves, and the row of all the others.
constexpr int kStatsTopics = 64;
constexpr int kOtherTopics = kStatsTopics;
constexpr int kStatsRows = kStatsTopics + 1;
constexpr int kTopicNameSize = 256;

using BatchHistogram = LogHistogram<20>;
using LatencyHistogram = LogHistogram<36>; // in microseconds: up to 19 hours

// All zero: nothing counted.
struct TopicCounts
{
    uint64 published;
    uint64 bytes;
    uint64 refused;
    uint64 failed;
    uint64 retried;
    uint64 batches;
    TimestampTz last_published_at; // 0: never
    BatchHistogram batch_events;
    LatencyHistogram created_to_acked;
    LatencyHistogram sent_to_acked;

    OUTBOX_FOR_RELAY void merge(const TopicCounts &other) noexcept;
};

struct TopicRow
{
    char topic[kTopicNameSize]; // empty: the row is free
    TopicCounts counts;
};

// Guarded by the area's lock, a lightweight lock of the tranche outbox_stats. The relay of the
// subscription is the only one that counts: it gathers in its own memory and adds from time to
// time, and it only ever tries the lock, so that no reader can be in its way. Readers hold it,
// shared, as long as it takes to copy the area; outbox.stats_reset() to clear it. Nothing is torn,
// then, and nothing of a row belongs to another moment than the rest of it.
struct StatsArea
{
    Oid database; // InvalidOid: free
    char subscription[NAMEDATALEN];
    TimestampTz created_at; // of the subscription; 0: of `default`
    uint32 resets;          // tells the relay that rows were freed
    TimestampTz reset_at;   // since when it counts
    TopicRow rows[kStatsRows];
};

struct StatsMemory
{
    uint64 layout; // kStatsLayout of the library that was preloaded
    int area_count;
    StatsArea areas[FLEXIBLE_ARRAY_MEMBER];
};

// As kSharedLayout.
constexpr uint64 kStatsLayout = (static_cast<uint64>(1) << 32) | sizeof(StatsArea);

// Null when the library was not preloaded.
OUTBOX_FOR_RELAY StatsMemory *stats_memory();

// For the hooks of shared_state.cpp.
void request_stats_memory();
void start_stats_memory();

OUTBOX_FOR_RELAY LWLock *stats_lock(const StatsArea *area);

constexpr const char *kDefaultSubscription = "default";

// The area of a subscription, or null. It may be another's by the time that its lock is held, see
// is_stats_area_of().
StatsArea *find_stats_area(Oid database, const char *subscription);
bool is_stats_area_of(const StatsArea &area, Oid database, const char *subscription);

// The same; a new one is taken, empty, if there is none yet, or only that of an earlier one of the
// name. With all in use it is that of one that has no relay; null when all have: only where more
// relays run than there are areas. For a relay, once it is registered in its entry.
OUTBOX_FOR_RELAY StatsArea *claim_stats_area(Oid database, const char *subscription,
                                             TimestampTz created_at);

// Calls f(StatsArea &) for each area of the database; without a lock, see find_stats_area().
template <typename F>
void
for_each_stats_area(Oid database, F f)
{
    for (int i = 0; stats_memory() != nullptr && i < stats_memory()->area_count; i++)
        if (stats_memory()->areas[i].database == database)
            f(stats_memory()->areas[i]);
}

// The subscription is gone; null: the database, or the extension in it.
void free_stats_areas(Oid database, const char *subscription);

// Forgets what was counted. The lock is held.
void clear_stats_area(StatsArea *area);

} // namespace outbox
