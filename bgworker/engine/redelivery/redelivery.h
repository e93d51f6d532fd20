// Events that Kafka refused, and the lines behind them: what is tried again when, and what follows.
#pragma once

#include "agenda.h"
#include "culprits.h"
#include "flights.h"
#include "late_partitions.h"
#include "left_rows.h"
#include "lines.h"
#include "redelivery_reports.h"
#include "redelivery_sending.h"
#include "redelivery_sink.h"
#include "results.h"
#include "rows_at_start.h"
#include "setting_aside.h"

namespace outbox
{

// What goes out besides the stream of new events, through a sink of its own. Its rounds are here,
// and its parts are classes of their own: the lines, and how events come into them, which the
// stream shares; what is sent, and what becomes of that. Lives as long as the process; its methods
// run in a step unless said otherwise.
class Redelivery
{
public:
    // Watches how far the stream has got. Throws std::bad_alloc.
    Redelivery(const World &world, const Progress &stream, LastReports &last_reports);

    Lines &lines() noexcept { return lines_; }
    const Lines &lines() const noexcept { return lines_; }
    SettingAside &setting_aside() noexcept { return aside_; }
    RowsAtStart &rows_at_start() noexcept { return rows_at_start_; }
    const RowsAtStart &rows_at_start() const noexcept { return rows_at_start_; }

    // The table was changed by an operator or the relay; the lines as well. Not in a
    // step, and so are the next four.
    void reload() noexcept { agenda_.reload(); }
    void reload_lines() noexcept { agenda_.reload_lines(); }
    // In a step: at once, if that was asked for.
    void load_changes()
    {
        if (agenda_.must_reload())
            load();
    }
    // Hears its sink. `may_judge`: Kafka can be reached, so that what is late is so by itself.
    // Returns true when there was something.
    bool serve(Steady now, bool may_judge);
    // All that is on its way is dropped, and counts as not sent.
    void give_up_in_flight() noexcept;
    void close_sink(int wait_ms) noexcept { sink_.close(wait_ms); }

    // An event of the stream that is set aside is afloat in this lane, until it has landed.
    void set_afloat(Lane lane);
    void land(Lane lane, std::int64_t seq, bool published) noexcept;

    // A row that a person holds is to follow into a lane, which waits for it. Throws
    // std::bad_alloc.
    void leave(const LeftRows::Row &row);
    // It has.
    void followed(const LeftRows::Row &row);
    // It needs not any more, if it was to; or none of them needs.
    void end_left(std::int64_t seq) noexcept;
    void forget_left() noexcept;
    bool has_left() const noexcept { return !left_.is_empty(); }
    std::size_t left() const noexcept { return left_.size(); }
    LeftRows::Row next_left() noexcept { return left_.next(); }

    // Whether step() has something to do, and when at the latest; -1: when the sink has news.
    bool has_work(std::uint64_t first_tag, const Moment &now) const noexcept
    {
        return agenda_.has_work(now) || lines_.has_passed_barrier(first_tag);
    }
    long wait_ms(std::uint64_t first_tag, const Moment &now) const noexcept;

    // Writes what has come back, tries what is due, and releases lines. All before the stream's
    // `first_tag` is acknowledged. Returns true when there is more to do at once.
    bool step(const FailurePolicy &policy, std::uint64_t first_tag, bool may_send,
              const Moment &now);
    // A part of it, see Results: may be needed before, and at the end.
    bool has_results() const noexcept { return results_.has_some(); }
    bool has_refused() const noexcept { return results_.has_refused(); }
    // The rows that are on their way, or were refused and it is not written yet: that goes to the
    // line in which they were tried. In order.
    std::vector<std::int64_t> under_way() const;
    bool write_results(const FailurePolicy &policy, Steady begun)
    {
        return results_.write(policy, begun);
    }
    // The step has ended; or was rolled back: what it has written is written again. Returns
    // whether it has written any.
    bool committed() noexcept;
    void rolled_back();

    bool paused() const noexcept { return agenda_.is_paused(); }
    std::size_t outstanding() const noexcept { return sink_.outstanding(); }
    std::size_t in_flight() const noexcept { return flights_.size(); }
    // What was published so far, among other things.
    const RedeliveryReports &reports() const noexcept { return reports_; }
    // Of what was published, all whose rows have gone.
    std::uint64_t counted() const noexcept { return results_.counted(); }
    void report(EngineReport &report) const noexcept { sink_.report(report); }

private:
    static constexpr std::size_t kMostCulprits = 2048;

    void load();
    void give_up_late(Steady now);
    void reserve();

    Deliveries &deliveries_;
    Agenda agenda_;
    Lines lines_;
    RowsAtStart rows_at_start_;
    LeftRows left_;
    SettingAside aside_;
    RedeliverySink sink_;
    Flights flights_;
    Results results_;
    Culprits culprits_{kMostCulprits};
    RedeliveryReports reports_;
    RedeliverySending sending_;
    LatePartitions late_partitions_;
    Steady late_looked_at_;
};

} // namespace outbox
