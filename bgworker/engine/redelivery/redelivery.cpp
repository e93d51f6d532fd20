#include "redelivery.h"

#include "bgworker/engine/common/sooner.h"

#include <algorithm>

namespace outbox
{

Redelivery::Redelivery(const World &world, const Progress &stream, LastReports &last_reports)
    : deliveries_(world.deliveries), lines_(world.deliveries, stream, agenda_),
      rows_at_start_(world.deliveries, lines_), aside_(world, lines_, rows_at_start_, agenda_),
      sink_(world, last_reports), flights_(lines_, agenda_),
      results_(world, lines_, agenda_, aside_),
      reports_(world, lines_, flights_, results_, culprits_),
      sending_(world, lines_, agenda_, sink_, flights_, results_, culprits_, left_),
      late_partitions_(world, lines_, flights_, agenda_)
{
}

void
Redelivery::load()
{
    lines_.load_blocked();
    if (agenda_.must_reload_lines())
    {
        rows_at_start_.read();
        lines_.load_waiting();
    }
    agenda_.reloaded(deliveries_.is_paused());
}

long
Redelivery::wait_ms(std::uint64_t first_tag, const Moment &now) const noexcept
{
    constexpr long kLookMs = 100; // for what is late
    if (has_work(first_tag, now))
        return 0;
    const long wait = sink_.is_there() ? sink_->serve_within_ms() : -1;
    if (paused())
        return wait;
    return sooner(sooner(wait, in_flight() > 0 ? kLookMs : -1), agenda_.wait_ms(now));
}

void
Redelivery::set_afloat(Lane lane)
{
    results_.reserve_afloat();
    lines_.set_afloat(lane);
}

void
Redelivery::land(Lane lane, std::int64_t seq, bool published) noexcept
{
    lines_.land(lane);
    if (published)
        results_.add_published(seq); // reserved in set_afloat()
}

void
Redelivery::leave(const LeftRows::Row &row)
{
    if (left_.find(row.numbers.seq).lane == row.lane)
        return;
    end_left(row.numbers.seq);
    set_afloat(row.lane);
    left_.add(row);
}

// It may have been what blocked its line, and belongs before others in the new one.
void
Redelivery::followed(const LeftRows::Row &row)
{
    lines_.join(row.lane, row.numbers.seq);
    end_left(row.numbers.seq);
    lines_.recheck(row.from);
}

void
Redelivery::end_left(std::int64_t seq) noexcept
{
    const LeftRows::Row row = left_.find(seq);
    if (row.lane == 0)
        return;
    left_.remove(seq);
    if (Line *line = lines_.find(row.from))
        line->behind = 0;
    lines_.land(row.lane);
}

void
Redelivery::forget_left() noexcept
{
    while (has_left())
        end_left(left_.next().numbers.seq);
}

// What reports of deliveries add to these may fail no more.
void
Redelivery::reserve()
{
    lines_.reserve();
    results_.reserve();
}

bool
Redelivery::committed() noexcept
{
    const bool parted = late_partitions_.committed();
    return results_.committed() || parted;
}

void
Redelivery::rolled_back()
{
    results_.rolled_back();
    late_partitions_.rolled_back();
    reserve();
    agenda_.reload_lines();
}

// What is late for good is dropped with the sink. One that refuses records one by one answers for
// each within a time of its own, however slow the endpoint is.
void
Redelivery::give_up_late(Steady now)
{
    constexpr int kKafkaMs = 10000;
    constexpr int kLongestAnswerMs = 5 * 60 * 1000;
    const int late_ms = sink_->refuses_batches() ? kKafkaMs : kLongestAnswerMs;
    constexpr int kLookMs = 100;
    if (flights_.size() == 0 || !has_passed(late_looked_at_, now, kLookMs))
        return;
    late_looked_at_ = now;
    Failure why;
    set_failure(why, FailureClass::topic, "_TIMED_OUT", "not acknowledged for %d seconds",
                late_ms / 1000);
    for (std::size_t number = 0; number < flights_.all().size(); number++)
    {
        const Flights::Flight &flight = flights_.all()[number];
        if (!flight.used || !has_passed(flight.at, now, late_ms))
            continue;
        if (!results_.has_room_for_refused())
            return;
        results_.add_late(flight.row, why, flight.partition);
        flights_.end(number);
        sink_.give_up(now);
    }
}

bool
Redelivery::serve(Steady now, bool may_judge)
{
    constexpr std::size_t kEventsPerServe = 1000;
    if (!sink_.is_there())
        return false;
    reports_.set_refuses_batches(sink_->refuses_batches());
    const bool any = sink_->serve(reports_, kEventsPerServe) > 0;
    if (const Failure trouble = reports_.take_trouble(); trouble.cls != FailureClass::none)
        sink_.note_trouble(trouble);
    if (!agenda_.is_stirred() && sink_->take_topics_changed())
        agenda_.stir();
    if (!may_judge)
        sink_->note_away();
    if (!sink_.watch(now) && may_judge)
        give_up_late(now);
    if (sink_.is_over(now))
        give_up_in_flight();
    if (may_judge)
        late_partitions_.find(now);
    sink_.close_if_idle(now, lines_.is_empty() && in_flight() == 0 && !agenda_.has_due());
    return any;
}

void
Redelivery::give_up_in_flight() noexcept
{
    sink_.close(0);
    flights_.end_all();
    lines_.begin_again();
}

std::vector<std::int64_t>
Redelivery::under_way() const
{
    std::vector<std::int64_t> seqs;
    flights_.add_seqs(nullptr, seqs);
    results_.add_refused_seqs(seqs);
    std::sort(seqs.begin(), seqs.end());
    return seqs;
}

bool
Redelivery::step(const FailurePolicy &policy, std::uint64_t first_tag, bool may_send,
                 const Moment &now)
{
    constexpr int kHeldMs = 100;
    agenda_.begin();
    if (lines_.has_passed_barrier(first_tag))
        lines_.pass_barrier();
    lines_.recheck_kept_back(Agenda::pace(now));
    const bool all_written = results_.write(policy, now.steady);
    if (agenda_.must_reload())
        load();
    agenda_.results_written(!all_written);
    late_partitions_.part();
    bool more = false;
    if (sending_.has_work(now))
    {
        if (may_send && all_written && !paused() && sink_.open(reports_.oversized().batches()))
            more = sending_.send(first_tag, now);
        else
            sending_.put_off(now);
    }
    if (results_.awaits_rows() || !lines_.kept_back().empty() || has_left())
        agenda_.try_again(plus_ms(Agenda::pace(now), kHeldMs));
    if (agenda_.must_find_due())
        sending_.find_due(first_tag);
    reserve();
    return more || agenda_.is_stirred();
}

} // namespace outbox
