// What the relay counts of its work, for outbox.stats.
#pragma once

#include "bgworker/core/progress.h"
#include "bgworker/core/topic_table.h"

#include "extension/stats_memory.h"

#include <memory>
#include <string_view>

namespace outbox
{

// Counts in the relay's own memory, and adds that to the shared area with flush(). One for the
// process; nothing but the constructor and attach() may fail, and nothing waits.
class Stats
{
public:
    Stats(); // throws std::bad_alloc

    // Takes the database's area, or counts for nobody if there is none.
    void attach(Oid database);

    // The number of a topic, for the rest.
    std::uint16_t topic(std::string_view name) noexcept { return topics_.find(name); }

    // Kafka has acknowledged an event; `now` is the clock, as are the times in `event`.
    void published(const Acknowledged &event, TimestampTz now) noexcept;
    // Kafka has acknowledged a batch of this many events.
    void batch(std::uint16_t topic, std::size_t events) noexcept;
    // Kafka refused an event, or its topic.
    void refused(std::uint16_t topic) noexcept { counts(topic).refused++; }
    // An event was given up.
    void failed(std::uint16_t topic) noexcept { counts(topic).failed++; }
    // Events are handed to Kafka once more.
    void retried(std::uint16_t topic) noexcept { counts(topic).retried++; }

    // Adds what was counted since. When somebody reads just then: next time. `idle`: no event that
    // carries a topic's number is on its way.
    void flush(bool idle) noexcept;

private:
    struct Counted
    {
        TopicCounts counts;
        bool any;
    };

    TopicCounts &counts(std::uint16_t topic) noexcept
    {
        if (!counted_[topic].any)
            touched_[touched_count_++] = topic;
        counted_[topic].any = true;
        return counted_[topic].counts;
    }
    void add_to_area() noexcept;
    void read_topics() noexcept;

    StatsArea *area_ = nullptr;
    std::uint32_t resets_ = 0;
    bool renumber_ = false; // the area's rows were freed since the topics got their numbers
    TopicTable topics_;
    std::unique_ptr<Counted[]> counted_;     // kStatsRows
    std::uint16_t touched_[kStatsRows] = {}; // those of them with `any`: rows are kilobytes
    std::size_t touched_count_ = 0;
};

} // namespace outbox
