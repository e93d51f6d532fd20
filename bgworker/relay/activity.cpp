#include "activity.h"

namespace outbox
{

namespace
{

struct Activity
{
    bool at_work;
    const char *query;
    const char *wait_event;
};

// In the words of docs/monitoring.md.
constexpr Activity kStarting = {true, "starting", "OutboxRelayStart"};
constexpr Activity kIdle = {false, "all committed events are published", "OutboxRelayIdle"};
constexpr Activity kPublishing = {true, "publishing", "OutboxRelayPublish"};
constexpr Activity kPaused = {false, "paused, see outbox.pauses", "OutboxRelayPaused"};
char backing_off[128];
constexpr Activity kBackingOff = {true, backing_off, "OutboxRelayBackoff"};
constexpr Activity kGone = {false, "stopped as its destination has asked for, see outbox.pauses",
                            "OutboxRelayPaused"};
constexpr Activity kStandby = {true, "waiting for synchronous standbys", "OutboxRelayStandby"};
constexpr Activity kLock = {true, "waiting for a lock on a table of outbox", "OutboxRelayLock"};
constexpr Activity kUnconfigured = {false, "not configured, see outbox.relay_status",
                                    "OutboxRelayUnconfigured"};

constexpr Activity kDetached = {false, "detached, events are passed and not sent",
                                "OutboxRelayIdle"};

const Activity *shown = nullptr;
uint32 event = PG_WAIT_EXTENSION;

const Activity *
activity_of(RelayState state, bool caught_up)
{
    switch (state)
    {
    case RelayState::running:
        return caught_up ? &kIdle : &kPublishing;
    case RelayState::paused:
        return &kPaused;
    case RelayState::gone:
        return &kGone;
    case RelayState::backing_off:
        return &kBackingOff;
    case RelayState::waiting_standby:
        return &kStandby;
    case RelayState::waiting_lock:
        return &kLock;
    case RelayState::detached:
        return &kDetached;
    case RelayState::not_configured:
    case RelayState::config_error:
        return &kUnconfigured;
    default:
        return &kStarting;
    }
}

} // namespace

void
report_activity(RelayState state, bool caught_up)
{
    const Activity *activity = activity_of(state, caught_up);
    if (activity == shown)
        return;
    shown = activity;
    event = named_wait_event(activity->wait_event);
    pgstat_report_activity(activity->at_work ? STATE_RUNNING : STATE_IDLE, activity->query);
}

void
set_activity_destination(const char *title)
{
    snprintf(backing_off, sizeof(backing_off), "waiting to try %s again, see outbox.relay_status",
             title);
}

uint32
activity_wait_event()
{
    return event;
}

} // namespace outbox
