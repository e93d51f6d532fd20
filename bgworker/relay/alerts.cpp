#include "bgworker/engine/common/threshold.h"
#include "bgworker/engine/stream/trouble_told.h"

#include "alerts.h"

#include "bgworker/source/subscription.h"

#include "extension/core/steady.h"
#include "extension/emit/backlog.h"
#include "extension/shared/settings.h"

namespace outbox
{

namespace
{

using News = Threshold::News;

Threshold lag;
TroubleTold lag_told; // events with a time in the past come and go, perhaps many times a second
Threshold filling;
Threshold full;
bool paused = false;

// In seconds. For one event by the steady clock, so that setting the server's makes no difference.
long
age_of(TimestampTz oldest)
{
    static TimestampTz known = 0;
    static int64 then_us = 0;
    static int64 seen_at = 0;
    if (oldest != known)
    {
        known = oldest;
        then_us = Max(GetCurrentTimestamp() - oldest, INT64CONST(0));
        seen_at = steady_now();
    }
    return oldest == 0 ? 0 : static_cast<long>((then_us + steady_now() - seen_at) / 1000000);
}

// How many events wait is known of `default` alone: others may have filters.
void
log_lag(int64 backlog, const RelayReport &report)
{
    const long age = age_of(report.oldest_event_at);
    const News news = lag.observe(age, settings.lag_warning_s, (settings.lag_warning_s + 1) / 2);
    if (news == News::passed)
        lag_told.begin();
    else if (news == News::back)
        lag_told.end();
    const TroubleTold::Say say = lag_told.next({steady_now()});
    if (say == TroubleTold::Say::begins)
        ereport(WARNING,
                (errmsg("%s is behind: the oldest unpublished event is from %s", relay_title(),
                        timestamptz_to_str(report.oldest_event_at)),
                 serves_default()
                     ? errdetail("The relay is %s; " INT64_FORMAT " committed events wait.",
                                 relay_state_name(report.state), backlog)
                     : errdetail("The relay is %s.", relay_state_name(report.state)),
                 serves_default()
                     ? errhint("See outbox.relay_status. The limit is outbox.lag_warning.")
                     : errhint("See outbox.subscription_status. The limit is its option "
                               "lag_warning.")));
    else if (say == TroubleTold::Say::ends)
        ereport(LOG, (errmsg("%s has caught up", relay_title())));
}

void
log_backlog(int64 backlog)
{
    const int64 limit = settings.max_backlog_events;
    const int64 warn_at = backlog_warning_level(limit);
    const News near = filling.observe(backlog, warn_at, warn_at / 2);
    const News reached = full.observe(backlog, limit, warn_at);
    if (reached == News::passed)
        ereport(WARNING,
                (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
                 errmsg("outbox refuses events: " INT64_FORMAT " committed events wait to be "
                        "published, outbox.max_backlog_events is " INT64_FORMAT,
                        backlog, limit),
                 errhint("See outbox.relay_status for what keeps the relay from publishing.")));
    else if (near == News::passed)
        ereport(WARNING,
                (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
                 errmsg("outbox will refuse events soon: " INT64_FORMAT " committed events wait to "
                        "be published, outbox.max_backlog_events is " INT64_FORMAT,
                        backlog, limit),
                 errhint("See outbox.relay_status for what keeps the relay from publishing.")));
    if (reached == News::back)
        ereport(LOG, (errmsg("outbox accepts events again: " INT64_FORMAT " committed events wait",
                             backlog)));
}

void
log_pause(bool now_paused)
{
    if (now_paused == paused)
        return;
    paused = now_paused;
    if (paused)
        ereport(LOG, (errmsg("%s is paused", relay_title()),
                      errhint("outbox.pauses says by whom and why; outbox.resume() ends it.")));
    else
        ereport(LOG, (errmsg("%s continues after a pause", relay_title())));
}

} // namespace

void
log_alerts(DatabaseSlot *slot, const RelayReport &report)
{
    const int64 backlog = backlog_of(slot);
    log_lag(backlog, report);
    if (serves_default()) // the limit is of its backlog
        log_backlog(backlog);
    log_pause(report.state == RelayState::paused);
}

} // namespace outbox
