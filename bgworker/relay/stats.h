// What the relay counts of its work, for outbox.stats.
#pragma once

#include "bgworker/engine/tally.h"
#include "bgworker/engine/common/topic_table.h"

#include "extension/shared/stats_memory.h"

#include <memory>
#include <string_view>

namespace outbox
{

// Counts in the relay's own memory, and adds that to the shared area with flush(). One for the
// process; nothing but the constructor and attach() may fail, and nothing waits.
class Stats final : public Tally
{
public:
    Stats(); // throws std::bad_alloc

    // Claims the area of this process's subscription; without one, nothing is counted.
    void attach(Oid database);

    std::uint16_t topic(std::string_view name) noexcept override { return topics_.find(name); }
    void published(const Acknowledged &event, const Moment &now) noexcept override;
    void batch(std::uint16_t topic, std::size_t events) noexcept override;
    void refused(std::uint16_t topic) noexcept override { counts(topic).refused++; }
    void failed(std::uint16_t topic) noexcept override { counts(topic).failed++; }
    void retried(std::uint16_t topic) noexcept override { counts(topic).retried++; }
    // Left for the next time while a session reads it.
    void flush(bool idle) noexcept override;

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
