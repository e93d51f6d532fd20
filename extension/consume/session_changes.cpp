// Several handlers in a transaction, each as if it were alone. What a commit does behind one of
// them is done when outbox.refuse_commit is set to on again, with the role and the settings that it
// has left. Then the client has to know whether it has left anything to the next one. To reset all
// of it takes statements that are dear, and to ask takes one that is not: it names what RESET ALL
// does not reset. Neither needs a right, whichever role a handler has left.

#include "session_changes.h"

#include "extension/server/pg_locks.h"
#include "extension/shared/lock_spaces.h"

extern "C"
{
#include "commands/tablecmds.h"
#include "nodes/parsenodes.h"
#include "utils/portal.h"
}

namespace outbox
{

namespace
{

struct Roles
{
    Oid session;
    Oid outer;
    Oid set; // by SET ROLE

    static Roles now() { return {GetSessionUserId(), GetOuterUserId(), GetCurrentRoleId()}; }
    bool operator==(const Roles &other) const
    {
        return session == other.session && outer == other.outer && set == other.set;
    }
};

// Of the current transaction.
struct Watch
{
    bool on = false;
    Roles roles = {};
    bool constraints = false;
    bool savepoint = false;     // one was open where the next handler was to begin
    bool session_locks = false; // advisory ones, released before the commit
} watch;

// Those of PostgreSQL's functions, and of other extensions.
bool
is_advisory(const LOCKTAG &tag)
{
    return tag.locktag_lockmethodid == USER_LOCKMETHOD && !is_own_lock_space(tag.locktag_field4);
}

const char *
show_changes()
{
    if (!watch.on)
        return "unknown";
    static char text[128];
    text[0] = 0;
    const struct
    {
        bool is_there;
        const char *name;
    } changes[] = {{!(Roles::now() == watch.roles), ", role"},
                   {watch.session_locks, ", advisory_locks"},
                   {XactReadOnly, ", read_only"},
                   {watch.constraints, ", constraints"},
                   {watch.savepoint, ", savepoint"}};
    for (const auto &change : changes)
        if (change.is_there)
            strlcat(text, change.name, sizeof(text));
    return text[0] == 0 ? text : text + 2;
}

// Only those of the session can be released: whether a lock is one of them is not to be seen
// otherwise. The next handler must not find it, and no other session should have it before the
// commit.
void
release_session_locks()
{
    const int before = count_locks_that(is_advisory);
    if (before == 0)
        return;
    LockReleaseSession(USER_LOCKMETHOD);
    watch.session_locks = watch.session_locks || count_locks_that(is_advisory) < before;
}

void
end_watch(XactEvent event, void *)
{
    if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
        watch = Watch();
}

} // namespace

void
watch_session()
{
    if (watch.on)
        return;
    watch = Watch();
    watch.roles = Roles::now();
    watch.on = true;
}

void
record_command(const Node *command)
{
    watch.constraints = watch.constraints || IsA(command, ConstraintsSetStmt);
}

bool
begins_next_handler(const Node *command)
{
    if (!watch.on || !IsA(command, VariableSetStmt))
        return false;
    const auto *set = reinterpret_cast<const VariableSetStmt *>(command);
    return set->kind == VAR_SET_VALUE && pg_strcasecmp(set->name, "outbox.refuse_commit") == 0;
}

// In the order of a commit. PostgreSQL forgets triggers that have run, so nothing may bring them
// back: a rollback to a savepoint would.
void
finish_handler()
{
    if (IsSubTransaction())
    {
        watch.savepoint = true;
        return;
    }
    AfterTriggerFireDeferred();
    PortalHashTableDeleteAll();
    PushActiveSnapshot(GetTransactionSnapshot());
    PreCommit_on_commit_actions();
    PopActiveSnapshot();
    release_session_locks();
}

void
define_session_changes()
{
    static char *nothing = nullptr;
    DefineCustomStringVariable(
        "outbox.session_changes", "Shows what was left in the session by the current transaction.",
        "Since outbox.refuse_commit was set: the C++ client asks for it between two handlers.",
        &nothing, "", PGC_INTERNAL,
        GUC_NO_SHOW_ALL | GUC_NO_RESET_ALL | GUC_NOT_IN_SAMPLE | GUC_DISALLOW_IN_FILE, nullptr,
        nullptr, show_changes);
    RegisterXactCallback(end_watch, nullptr);
}

} // namespace outbox
