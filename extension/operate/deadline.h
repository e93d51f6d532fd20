// How long a session waits for a relay.
#pragma once

#include "extension/server/arguments.h"

namespace outbox
{

// A waiting session holds its statement's snapshot, which holds VACUUM back.
constexpr int64 kLongestWaitUs = USECS_PER_DAY;

// By the steady clock.
class Deadline
{
public:
    explicit Deadline(int64 us) : us_(us) { INSTR_TIME_SET_CURRENT(begin_); }

    // 0: it has passed.
    long milliseconds_left() const
    {
        instr_time now;
        INSTR_TIME_SET_CURRENT(now);
        INSTR_TIME_SUBTRACT(now, begin_);
        const int64 left = us_ - static_cast<int64>(INSTR_TIME_GET_MICROSEC(now));
        return left <= 0 ? 0 : static_cast<long>((left + 999) / 1000);
    }

private:
    instr_time begin_;
    int64 us_;
};

// A day at most.
inline Deadline
deadline_after(Datum timeout)
{
    const int64 us = microseconds_of(timeout, 2 * kLongestWaitUs);
    if (us > kLongestWaitUs)
        ereport(
            ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
             errmsg("timeout must not be longer than a day"),
             errdetail("It is %s.", DatumGetCString(DirectFunctionCall1(interval_out, timeout))),
             errhint("Call it again, in another statement: while one waits, VACUUM keeps "
                     "the rows that it sees.")));
    return Deadline(us);
}

} // namespace outbox
