#include "unless_committed.h"

#include "detached_thread.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <libpq-events.h>

namespace outbox::v0::detail
{

namespace
{

// What hangs on a connection.
struct Watch
{
    std::vector<std::string> lines;
    bool paused = false;
};

void
tell(Watch &watch)
{
    for (const std::string &line : watch.lines)
        (void) std::fputs(line.c_str(), stderr); // there is nobody else to tell
    watch.lines.clear();
}

// A COMMIT that fails says so by an error, and one of a transaction that has failed by ROLLBACK. An
// error alone says nothing: there may be a savepoint. What begins shows that the former has ended.
void
look_at(const PGresult *result, Watch &watch)
{
    const char *done = PQcmdStatus(const_cast<PGresult *>(result));
    if (std::strcmp(done, "COMMIT") == 0)
        watch.lines.clear();
    for (const char *other : {"ROLLBACK", "PREPARE TRANSACTION", "BEGIN", "START TRANSACTION"})
        if (std::strcmp(done, other) == 0)
            tell(watch);
}

Watch *of(PGconn *connection);

// libpq calls it for each result of the connection, and at its end.
int
note(PGEventId event, void *info, void * /*nothing*/)
{
    if (event == PGEVT_RESULTCREATE)
    {
        const auto *created = static_cast<PGEventResultCreate *>(info);
        Watch *watch = of(created->conn);
        if (watch != nullptr && !watch->lines.empty() && !watch->paused)
            look_at(created->result, *watch);
    }
    else if (event == PGEVT_CONNRESET)
    {
        if (Watch *watch = of(static_cast<PGEventConnReset *>(info)->conn))
            tell(*watch);
    }
    else if (event == PGEVT_CONNDESTROY)
    {
        const std::unique_ptr<Watch> watch(of(static_cast<PGEventConnDestroy *>(info)->conn));
        if (watch)
            tell(*watch);
    }
    return 1;
}

// Null for a connection that none hangs on.
Watch *
of(PGconn *connection)
{
    return static_cast<Watch *>(PQinstanceData(connection, &note));
}

} // namespace

bool
tell_unless_committed(PGconn *connection, std::string line) noexcept
try
{
    Watch *watch = of(connection);
    if (watch == nullptr)
    {
        auto first = std::make_unique<Watch>();
        stay_loaded();
        if (PQregisterEventProc(connection, &note, "outbox", nullptr) == 0 ||
            PQsetInstanceData(connection, &note, first.get()) == 0)
            return false;
        watch = first.release();
    }
    watch->lines.push_back(std::move(line));
    return true;
}
catch (const std::bad_alloc &)
{
    return false;
}

OwnRollback::OwnRollback(PGconn *connection) : connection_(connection)
{
    if (Watch *watch = of(connection_))
        watch->paused = true;
}

OwnRollback::~OwnRollback()
{
    if (Watch *watch = of(connection_))
        watch->paused = false;
}

} // namespace outbox::v0::detail
