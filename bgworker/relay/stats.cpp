#include "stats.h"

#include "bgworker/source/subscription.h"

namespace outbox
{

namespace
{

static_assert(TopicTable::kTopics == kStatsTopics && TopicTable::kOther == kOtherTopics,
              "a topic's number is its row");
static_assert(TopicTable::kLongest < kTopicNameSize, "names end with a zero");

// No topic is called that.
constexpr std::string_view kOtherTopicsName = "(other topics)";

// Clocks step back, and created_at may be any time.
uint64
elapsed(TimestampTz since, TimestampTz now)
{
    return since < now ? static_cast<uint64>(now) - static_cast<uint64>(since) : 0;
}

// An INSERT may say any created_at. What is years back is a date of the application's, and one such
// event would be all that a sum of times says: it counts from when it was handed over.
uint64
waited(const Acknowledged &event, TimestampTz now, uint64 on_its_way)
{
    constexpr uint64 kYearUs = 366 * static_cast<uint64>(86400) * 1000000;
    const uint64 since_created = elapsed(event.created_at, now);
    return since_created <= kYearUs ? since_created : on_its_way;
}

} // namespace

Stats::Stats() : counted_(new Counted[kStatsRows]()) {}

void
Stats::attach(Oid database)
{
    area_ = claim_stats_area(database, subscription_name(), subscription_created_at());
    if (area_ == nullptr)
        return;
    LWLockAcquire(stats_lock(area_), LW_SHARED);
    read_topics();
    LWLockRelease(stats_lock(area_));
}

// With the lock held.
void
Stats::read_topics() noexcept
{
    topics_.clear();
    for (int i = 0; i < kStatsTopics; i++)
        if (area_->rows[i].topic[0] != '\0')
            topics_.set(static_cast<std::uint16_t>(i), area_->rows[i].topic);
    resets_ = area_->resets;
    renumber_ = false;
}

void
Stats::published(const Acknowledged &event, const Moment &now) noexcept
{
    const uint64 on_its_way = elapsed(event.memo.sent_at.us, now.steady.us);
    TopicCounts &topic = counts(event.memo.topic);
    topic.published++;
    topic.bytes += event.memo.bytes;
    topic.created_to_acked.add(waited(event, now.time, on_its_way));
    topic.sent_to_acked.add(on_its_way);
    topic.last_published_at = now.time;
}

void
Stats::batch(std::uint16_t topic, std::size_t events) noexcept
{
    counts(topic).batches++;
    counts(topic).batch_events.add(events);
}

// With the lock held.
void
Stats::add_to_area() noexcept
{
    for (std::size_t i = 0; i < touched_count_; i++)
    {
        const std::uint16_t topic = touched_[i];
        TopicRow &row = area_->rows[topic];
        const std::string_view name =
            topic == kOtherTopics ? kOtherTopicsName : topics_.name(topic);
        memcpy(row.topic, name.data(), name.size());
        row.topic[name.size()] = '\0';
        row.counts.merge(counted_[topic].counts);
        counted_[topic] = {};
    }
    touched_count_ = 0;
}

void
Stats::flush(bool idle) noexcept
{
    if (area_ == nullptr || (touched_count_ == 0 && !(renumber_ && idle)) ||
        !LWLockConditionalAcquire(stats_lock(area_), LW_EXCLUSIVE))
        return;
    renumber_ = renumber_ || area_->resets != resets_;
    resets_ = area_->resets;
    add_to_area();
    if (renumber_ && idle)
        read_topics();
    LWLockRelease(stats_lock(area_));
}

} // namespace outbox
