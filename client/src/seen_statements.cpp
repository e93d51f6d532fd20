#include "seen_statements.h"

#include <cstring>

namespace outbox::v0::detail
{

namespace
{

bool
is(const char *tag, const char *command)
{
    return std::strcmp(tag, command) == 0;
}

// Whether a statement with this command tag may have begun or ended a transaction. ROLLBACK is also
// the tag of a rollback to a savepoint.
bool
is_boundary(const char *tag)
{
    for (const char *one : {"BEGIN", "START TRANSACTION", "COMMIT", "ROLLBACK"})
        if (is(tag, one))
            return true;
    return std::strncmp(tag, "PREPARE TRANSACTION", 19) == 0;
}

} // namespace

// These statements are none that a function can run.
void
SeenStatements::note(const PGresult *result)
{
    const ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_FATAL_ERROR || status == PGRES_BAD_RESPONSE)
    {
        const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        last_error = sqlstate == nullptr ? "" : sqlstate;
        if (!failed_)
            cause = last_error;
        failed_ = true;
        return;
    }
    const char *tag = PQcmdStatus(const_cast<PGresult *>(result)); // NOLINT: it only reads
    boundary = boundary || is_boundary(tag);
    savepoint = savepoint || is(tag, "SAVEPOINT");
    failed_ = failed_ && !is(tag, "ROLLBACK");
    if (!failed_ && !is(tag, "ROLLBACK"))
        cause.clear();
}

} // namespace outbox::v0::detail
