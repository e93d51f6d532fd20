// Between two handlers in a transaction the client has to know whether the first one has left
// anything to the second. To reset all of it takes statements that are dear, and to ask takes one
// that is not. It names what RESET ALL and CLOSE ALL do not reset. Reading it changes nothing and
// needs no right, whichever role a handler has left.

#include "session_changes.h"

#include "lock_spaces.h"

extern "C"
{
#include "nodes/parsenodes.h"
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
} watch;

// Those of PostgreSQL's functions, and of other extensions. Whether one is the session's or the
// transaction's, which its owner could not release, is not to be seen here.
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
                   {holds_lock_that(is_advisory), ", advisory_locks"},
                   {XactReadOnly, ", read_only"},
                   {watch.constraints, ", constraints"}};
    for (const auto &change : changes)
        if (change.is_there)
            strlcat(text, change.name, sizeof(text));
    return text[0] == 0 ? text : text + 2;
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
note_command(const Node *command)
{
    watch.constraints = watch.constraints || IsA(command, ConstraintsSetStmt);
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
