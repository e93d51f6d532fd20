// Steps of the relay whose ERROR is no reason to end.
#pragma once

#include "extension/pg.h"

namespace outbox
{

// What a round does beside publishing, in transactions of its own: it fails for itself. An ERROR
// rolls its transaction back, is logged when it is another one than the last time, shown as
// last_error, and the step is tried again after a pause that grows from a second to a minute.
// Nothing that the process knows of Kafka is lost by it, so nothing is published again.
class Guarded
{
public:
    explicit Guarded(const char *what, int64 longest_pause_ms = 60 * 1000)
        : what_(what), longest_pause_ms_(longest_pause_ms)
    {
    }

    // Calls f, unless the pause is not over. Returns whether it was called and came to its end. f
    // holds no object with a destructor on its frames.
    template <typename F> bool run(F f)
    {
        if (!is_due())
            return false;
        volatile bool good = false;
        PG_TRY();
        {
            f();
            good = true;
        }
        PG_CATCH();
        {
            note_error();
        }
        PG_END_TRY();
        if (good)
            note_success();
        return good;
    }

    // The same for what is tried again as a part of something larger: calls f always, passes on an
    // ERROR that is_own() does not take for this step's, and leaves it to the caller to say when
    // the step is known to work again, by note_success().
    template <typename F, typename IsOwn> bool watch(F f, IsOwn is_own)
    {
        volatile bool good = false;
        PG_TRY();
        {
            f();
            good = true;
        }
        PG_CATCH();
        {
            if (!is_own())
                PG_RE_THROW();
            note_error();
        }
        PG_END_TRY();
        return good;
    }

    void note_success();
    bool is_due() const;
    bool failing() const { return failures_ > 0; }
    // In ms; -1: it does not wait for anything.
    long due_within_ms() const;
    void retry_now() { next_at_ = 0; }

private:
    void note_error();

    const char *what_;
    const int64 longest_pause_ms_;
    int failures_ = 0;
    int told_code_ = 0;
    int64 next_at_ = 0; // by the steady clock
};

// In a PG_CATCH block: ends the transaction and gives the error as one text: what, message,
// SQLSTATE. Logs it if `tell` says so of its SQLSTATE.
void end_failed_transaction(const char *what, bool tell, char *text, size_t size);

} // namespace outbox
