// outbox.refuse_commit: a consumer's transaction holds the mark of an event and the effect of a
// handler that the application wrote. If the handler committed it, the mark would say that an
// effect was made which is made in part at most. So the client sets this while a handler has the
// connection, and takes it back in the message that commits.

#include "commit_guard.h"

#include "session_changes.h"

#include "extension/server/pg.h"

extern "C"
{
#include "access/parallel.h"
}

namespace outbox
{

namespace
{

bool refuse_commit = false;

// Anywhere but in a session it would only make every transaction fail.
bool
check_refuse_commit(bool *value, void **, GucSource source)
{
    if (!*value || source == PGC_S_SESSION || source == PGC_S_DEFAULT)
        return true;
    GUC_check_errmsg("parameter \"outbox.refuse_commit\" can only be set in a transaction");
    GUC_check_errhint("Use SET LOCAL.");
    return false;
}

// The first handler is about to be called.
void
assign_refuse_commit(bool value, void *)
{
    if (value && !IsParallelWorker())
        watch_session();
}

// Before anything of the commit has happened, so that an error rolls the transaction back. A
// parallel worker takes over the leader's settings in a small transaction of its own, which it has
// to commit.
void
refuse(XactEvent event, void *)
{
    if (!refuse_commit || IsParallelWorker() ||
        (event != XACT_EVENT_PRE_COMMIT && event != XACT_EVENT_PRE_PREPARE))
        return;
    ereport(ERROR, (errcode(ERRCODE_INVALID_TRANSACTION_TERMINATION),
                    errmsg("this transaction cannot be %s here",
                           event == XACT_EVENT_PRE_COMMIT ? "committed" : "prepared"),
                    errdetail("outbox.refuse_commit is on: the outbox consumer that began the "
                              "transaction commits it when the handler returns."),
                    errhint("Let the handler return to commit, or throw to roll back. Use "
                            "savepoints to undo a part.")));
}

} // namespace

void
define_commit_guard()
{
    DefineCustomBoolVariable(
        "outbox.refuse_commit", "Makes the current transaction fail when it is committed.",
        "Set by the C++ client, with SET LOCAL, while a handler has the connection.",
        &refuse_commit, false, PGC_USERSET,
        // A handler that resets its settings does not mean this one, and no session can keep it.
        GUC_NO_RESET_ALL | GUC_NOT_IN_SAMPLE | GUC_DISALLOW_IN_FILE, check_refuse_commit,
        assign_refuse_commit, nullptr);
    RegisterXactCallback(refuse, nullptr);
}

bool
commit_is_refused()
{
    return refuse_commit;
}

} // namespace outbox
