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
    explicit Guarded(const char *what) : what_(what) {}

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

    bool failing() const { return failures_ > 0; }
    // In ms; -1: it does not wait for anything.
    long due_within_ms() const;
    void retry_now() { next_at_ = 0; }

private:
    bool is_due() const;
    void note_error();
    void note_success();

    const char *what_;
    int failures_ = 0;
    int told_code_ = 0;
    int64 next_at_ = 0; // by the steady clock
};

// In a PG_CATCH block: ends the transaction and gives the error as one text: what, message,
// SQLSTATE. Logs it if `tell` says so of its SQLSTATE.
void end_failed_transaction(const char *what, bool tell, char *text, size_t size);

} // namespace outbox
