// What redelivery has to do, and when.
#pragma once

#include "bgworker/engine/clock.h"
#include "bgworker/engine/mutant.h"
#include "bgworker/engine/common/sooner.h"

#include <algorithm>

namespace outbox
{

// The table is asked only for a reason: something has changed, it was changed from outside, a row
// is due, or what could not be handed over is worth another try. Whatever gives such a reason says
// so here, so nothing else has to be asked whether there is work.
class Agenda
{
public:
    // Something has changed that a step may make use of.
    void stir() noexcept { stirred_ = true; }
    // Other rows may be due than those that are known of.
    void find_due() noexcept { find_due_ = true; }
    // Something else has changed the table: which lanes are blocked; or the lines as well.
    void reload() noexcept { reload_ = true; }
    void reload_lines() noexcept { reload_ = reload_lines_ = true; }
    // What waits could not be handed over.
    void try_again(Steady at) noexcept
    {
        again_at_ = again_at_.is_never() ? at : std::min(again_at_, at);
    }

    bool must_reload() const noexcept { return reload_; }
    bool must_reload_lines() const noexcept { return reload_lines_; }
    void reloaded(bool paused) noexcept
    {
        reload_ = reload_lines_ = false;
        paused_ = paused;
        find_due_ = true;
    }

    // A step begins; and has written results, of which there may be `more`. All other reasons up to
    // there are dealt with by it.
    void begin() noexcept { stirred_ = false; }
    void results_written(bool more) noexcept
    {
        stirred_ = more;
        again_at_ = {};
    }
    bool must_find_due() const noexcept { return find_due_; }
    // As it is stored; 0: nothing is.
    void set_due_at(Time at) noexcept
    {
        due_at_ = at;
        find_due_ = false;
    }
    // What is due is not tried before; never: at once.
    void put_off_due(Steady until) noexcept { not_due_before_ = until; }

    bool is_paused() const noexcept { return paused_; }
    bool is_stirred() const noexcept { return stirred_; }
    bool has_due() const noexcept { return due_at_ != 0; }
    bool is_due(const Moment &now) const noexcept
    {
        return due_at_ != 0 && due_at_ <= now.time && not_due_before_ <= pace(now);
    }
    bool has_work(const Moment &now) const noexcept
    {
        return stirred_ || reload_ ||
               (!paused_ && (is_due(now) || (!again_at_.is_never() && again_at_ <= pace(now))));
    }
    // Until there is, by the time; -1: never.
    long wait_ms(const Moment &now) const noexcept
    {
        long wait = -1;
        if (due_at_ != 0)
            wait = std::max(
                {1L, ms_between(now.time, due_at_), ms_between(pace(now), not_due_before_)});
        if (!again_at_.is_never())
            wait = sooner(wait, std::max(1L, ms_between(pace(now), again_at_)));
        return wait;
    }
    // The clock by which tries are paced.
    static Steady pace(const Moment &now) noexcept
    {
        return OUTBOX_MUTANT(tries_by_time_of_day) ? Steady{now.time} : now.steady;
    }

private:
    bool stirred_ = true;
    bool reload_ = true;
    bool reload_lines_ = true;
    bool find_due_ = true;
    bool paused_ = false;
    Time due_at_ = 0;
    Steady not_due_before_;
    Steady again_at_; // never: nothing waits for it
};

} // namespace outbox
