// Attempts that a clock which was set back has put off.
#pragma once

namespace outbox
{

// Refused events that wait for longer than outbox.backoff_max can make them are due now: the clock
// was ahead when their time was written. In a transaction of its own. Returns whether there were
// such events.
bool make_late_attempts_due();

} // namespace outbox
