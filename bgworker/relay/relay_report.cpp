// What the relay's process shows of itself in shared memory, and why it is waiting.

#include "relay.h"

#include "activity.h"
#include "alerts.h"

#include "bgworker/source/relation_lock.h"
#include "bgworker/source/subscription.h"

#include "extension/core/steady.h"

namespace outbox
{

namespace
{

// Stays in last_error until something newer happens.
char last_problem[512];
TimestampTz last_problem_at = 0;

struct Wait
{
    char problem[512]; // stays, so that it is logged once
    TimestampTz since; // 0: it is over
};

Wait waits[static_cast<int>(Awaited::person) + 1];

void
add_if_newer(RelayReport *report, const char *problem, TimestampTz at)
{
    // A time in the future is from before the clock was set back.
    const bool is_late = report->last_error_at > GetCurrentTimestamp();
    if (at == 0 || (at < report->last_error_at && !is_late))
        return;
    report->last_error_at = at;
    strlcpy(report->last_error, problem, sizeof(report->last_error));
}

// What the process is doing, or waits for; the engine's part of it only while nothing else is in
// the way.
RelayState
current_state(const char *problem)
{
    if (relay.state != RelayState::running)
        return relay.state;
    const Publisher &publisher = relay.parts->engine.publisher();
    if (relay.parts->engine.gone() != nullptr)
        return RelayState::gone;
    if (publisher.paused())
        return relay.parts->deliveries.gone()[0] != '\0' ? RelayState::gone : RelayState::paused;
    if (publisher.backing_off())
        return RelayState::backing_off;
    if (relay.round.step == StepResult::standby)
        return RelayState::waiting_standby;
    if (waits_for_lock())
        return RelayState::waiting_lock;
    if (problem[0] != '\0' && !relay.parts->source.has_routes())
        return RelayState::config_error;
    return RelayState::running;
}

// What to do about it is said as long as it lasts.
void
show_gone(bool gone)
{
    if (!gone)
        return end_wait(Awaited::person);
    const Failure *why = relay.parts->engine.gone();
    char problem[512];
    snprintf(problem, sizeof(problem),
             "the destination asks never to be called again; outbox.resume('%s') or "
             "outbox.alter_subscription() lets it start again: %s%s%s",
             subscription_name(), why != nullptr ? why->name : "", why != nullptr ? ": " : "",
             why != nullptr ? why->text : relay.parts->deliveries.gone());
    begin_wait(Awaited::person, problem);
}

// A Kafka that hangs is no failure for librdkafka for a minute. Other sinks have time limits of
// their own.
void
watch_answers(const RelayReport &report)
{
    constexpr std::int64_t kLong = std::int64_t{10} * 1000 * 1000;
    static std::int64_t since = 0; // by the steady clock
    static uint64 published = 0;
    const std::int64_t now = steady_now();
    if (since == 0 || report.in_flight_events == 0 || report.published != published ||
        report.state != RelayState::running)
    {
        since = now;
        published = report.published;
        end_wait(Awaited::answer);
    }
    else if (now - since >= kLong && strcmp(relay.kind->name, "kafka") == 0)
    {
        char problem[160];
        snprintf(problem, sizeof(problem),
                 "%s has acknowledged nothing for ten seconds, and has not refused anything either",
                 relay.kind->title);
        begin_wait(Awaited::answer, problem);
    }
}

} // namespace

void
report_problem(const char *problem)
{
    const bool known = strcmp(problem, last_problem) == 0;
    last_problem_at = known ? last_problem_at : GetCurrentTimestamp();
    strlcpy(last_problem, problem, sizeof(last_problem));
    if (!known)
        ereport(LOG, (errmsg("%s: %s", relay_title(), problem)));
}

void
begin_wait(Awaited what, const char *problem)
{
    Wait &wait = waits[static_cast<int>(what)];
    const bool known = strcmp(problem, wait.problem) == 0;
    if (!known || wait.since == 0)
        wait.since = GetCurrentTimestamp();
    strlcpy(wait.problem, problem, sizeof(wait.problem));
    if (!known)
        ereport(LOG, (errmsg("%s: %s", relay_title(), problem)));
}

void
end_wait(Awaited what)
{
    waits[static_cast<int>(what)].since = 0;
}

void
set_last_error(const char *problem)
{
    last_problem_at = GetCurrentTimestamp();
    strlcpy(last_problem, problem, sizeof(last_problem));
}

void
inherit_last_error()
{
    SpinLockAcquire(&relay.entry->mutex);
    // What else a relay leaves, such as why it waits for an update, ends with its cause.
    if (relay.entry->report.ended_by_error)
    {
        last_problem_at = relay.entry->report.last_error_at;
        strlcpy(last_problem, relay.entry->report.last_error, sizeof(last_problem));
    }
    SpinLockRelease(&relay.entry->mutex);
}

void
leave_last_error(const char *problem)
{
    SpinLockAcquire(&relay.entry->mutex);
    relay.entry->report.last_error_at = GetCurrentTimestamp();
    strlcpy(relay.entry->report.last_error, problem, sizeof(relay.entry->report.last_error));
    relay.entry->report.ended_by_error = true;
    SpinLockRelease(&relay.entry->mutex);
}

void
add_last_error(RelayReport *report)
{
    add_if_newer(report, last_problem, last_problem_at);
    for (const Wait &wait : waits)
        add_if_newer(report, wait.problem, wait.since);
}

bool
waits_for_lock()
{
    return (relay.round.step == StepResult::locked && !relay.parts->source.is_held()) ||
           relay.round.saved == SaveResult::locked;
}

void
begin_lock_wait()
{
    char problem[NAMEDATALEN + 64];
    if (table_in_the_way[0] == '\0')
        strlcpy(problem, "waiting for a lock on a table of outbox", sizeof(problem));
    else
        snprintf(problem, sizeof(problem), "waiting for a lock on outbox.%s", table_in_the_way);
    begin_wait(Awaited::lock, problem);
}

void
write_report(const RelayReport &report)
{
    SpinLockAcquire(&relay.entry->mutex);
    relay.entry->report = report;
    SpinLockRelease(&relay.entry->mutex);
}

void
report_state()
{
    const Publisher &publisher = relay.parts->engine.publisher();
    const EngineReport engine = publisher.report();
    RelayReport report = {};
    report.oldest_event_at = engine.oldest_event_at;
    report.in_flight_events = static_cast<int32>(engine.in_flight_events);
    report.in_flight_bytes = static_cast<int64>(engine.in_flight_bytes);
    report.published = static_cast<uint64>(engine.published);
    report.last_published_at = engine.last_published_at;
    report.consecutive_failures = static_cast<int32>(engine.consecutive_failures);
    report.next_attempt_at = engine.next_attempt_at;
    report.last_error_at = engine.last_error_at;
    strlcpy(report.last_error, engine.last_error, sizeof(report.last_error));
    const char *problem =
        relay.config_error[0] != '\0' ? relay.config_error : relay.parts->source.routes_problem();
    report.state = current_state(problem);
    strlcpy(report.config_error, problem, sizeof(report.config_error));
    show_gone(report.state == RelayState::gone);
    watch_answers(report);
    add_last_error(&report);
    write_report(report);
    report_activity(report.state, publisher.caught_up());
    log_alerts(relay.slot, report);
}

} // namespace outbox
