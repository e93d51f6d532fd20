// What is reported when there is no room for a relay.

#include "watch.h"

namespace outbox
{

namespace
{

bool told_about_no_place;
bool told_about_no_worker;

// Whether the database may yet turn out to have no extension.
bool
is_undecided(Watch &watch)
{
    if (!OidIsValid(watch.database) || watch.lacks_worker)
        return false;
    const RelayState state = reported_state(*watch.entry);
    return !watch.wanted || state == RelayState::starting ||
           (state == RelayState::absent && watch.failures == 0);
}

} // namespace

DatabaseSlot &
slot_of(const Watch &watch)
{
    return shared_state()->slots[&watch - watches];
}

void
report_no_worker(RelayWatch &watch, const char *database_name)
{
    RelayEntry &entry = *watch.entry;
    char why[128];
    snprintf(why, sizeof(why),
             "no background worker is free: all %d of max_worker_processes are in use",
             max_worker_processes);
    SpinLockAcquire(&entry.mutex);
    if (!watch.lacks_worker)
        entry.report.last_error_at = GetCurrentTimestamp();
    entry.report.state = RelayState::absent;
    entry.report.ended_by_error = false;
    strlcpy(entry.report.last_error, why, sizeof(entry.report.last_error));
    SpinLockRelease(&entry.mutex);
    watch.lacks_worker = true;
    if (!told_about_no_worker)
        ereport(WARNING,
                (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
                 errmsg("outbox: no background worker is free for database \"%s\"", database_name),
                 errdetail("All %d of max_worker_processes are in use; its events wait.",
                           max_worker_processes),
                 errhint("Raise max_worker_processes and restart PostgreSQL: outbox needs one for "
                         "each database that has the extension, one for each subscription besides "
                         "the default one, and two more.")));
    told_about_no_worker = true;
}

void
log_limits(bool no_place)
{
    bool lacks_worker = false;
    bool looking = false;
    for_each_watch([&](RelayWatch &watch) { lacks_worker = lacks_worker || watch.lacks_worker; });
    for (Watch &watch : watches)
        looking = looking || is_undecided(watch);
    told_about_no_worker = told_about_no_worker && lacks_worker;
    told_about_no_place = told_about_no_place && no_place;
    if (!no_place || looking || told_about_no_place)
        return;
    ereport(WARNING, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
                      errmsg("outbox: all %d places for databases are in use, others get no relay",
                             most_databases()),
                      errhint("Drop the extension where it is not needed, or move databases to "
                              "another server.")));
    told_about_no_place = true;
}

} // namespace outbox
