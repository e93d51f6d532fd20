#include "unless_committed.h"

#include "detached_thread.h"

#include <algorithm>
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

// A transaction with a key in it.
struct Followed
{
    // A COMMIT of a transaction that has failed is a ROLLBACK by its tag, and so is a rollback to a
    // savepoint. One that fails has none; what begins next shows that the transaction has ended.
    void look_at(const char *done)
    {
        const auto is = [&](const char *tag) { return std::strcmp(done, tag) == 0; };
        if (ended)
            return;
        if (is("SAVEPOINT"))
            savepoint = savepoint || !(answered || rolled_back);
        else if (is("ROLLBACK"))
        {
            rolled_back = true;
            ended = !savepoint; // the request was undone as a whole, or nothing of it
        }
        else if (is("COMMIT") || is("PREPARE TRANSACTION"))
        {
            ended = true;
            unanswered = answered ? rolled_back && savepoint : !rolled_back || savepoint;
        }
        else if (is("BEGIN") || is("START TRANSACTION"))
            ended = true;
    }

    std::uint64_t number = 0;
    bool savepoint = false;   // one was set between the request's begin and its answer
    bool answered = false;    // completed or released, though that may have been undone
    bool rolled_back = false; // since the answer, if there is one; to a savepoint at least
    bool ended = false;       // so that nothing that follows matters
    bool unanswered = false;  // when it ended; with rolled_back only maybe so
    bool left = false;        // the lines are there
    std::string line;
    std::string perhaps;
};

// What hangs on a connection.
struct Watch
{
    std::vector<std::string> lines;
    std::vector<Followed> followed;
    std::uint64_t last_number = 0;
    bool paused = false;
};

void
tell(Watch &watch)
{
    for (const std::string &line : watch.lines)
        (void) std::fputs(line.c_str(), stderr); // there is nobody else to tell
    watch.lines.clear();
}

// Those whose request is gone and whose end is known.
void
tell_followed(Watch &watch)
{
    auto &all = watch.followed;
    for (const Followed &one : all)
        if (one.left && one.ended && one.unanswered)
            (void) std::fputs((one.rolled_back ? one.perhaps : one.line).c_str(), stderr);
    const auto done = [](const Followed &one) { return one.left && one.ended; };
    all.erase(std::remove_if(all.begin(), all.end(), done), all.end());
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
    for (Followed &one : watch.followed)
        one.look_at(done);
    tell_followed(watch);
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
        if (watch != nullptr && !watch->paused)
            look_at(created->result, *watch);
    }
    else if (event == PGEVT_CONNRESET)
    {
        if (Watch *watch = of(static_cast<PGEventConnReset *>(info)->conn))
        {
            tell(*watch);
            watch->followed.clear(); // with its keys, unless the commit got there; nobody knows
        }
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

// Throws std::bad_alloc.
Watch &
made_for(PGconn *connection)
{
    if (Watch *watch = of(connection))
        return *watch;
    auto first = std::make_unique<Watch>();
    stay_loaded();
    if (PQregisterEventProc(connection, &note, "outbox", nullptr) == 0 ||
        PQsetInstanceData(connection, &note, first.get()) == 0)
        throw std::bad_alloc();
    return *first.release();
}

Followed *
find(PGconn *connection, std::uint64_t number)
{
    Watch *watch = of(connection);
    if (watch != nullptr)
        for (Followed &one : watch->followed)
            if (one.number == number)
                return &one;
    return nullptr;
}

} // namespace

bool
tell_unless_committed(PGconn *connection, std::string line) noexcept
try
{
    made_for(connection).lines.push_back(std::move(line));
    return true;
}
catch (const std::bad_alloc &)
{
    return false;
}

std::uint64_t
follow(PGconn *connection)
{
    Watch &watch = made_for(connection);
    watch.followed.emplace_back();
    return watch.followed.back().number = ++watch.last_number;
}

void
note_answer(PGconn *connection, std::uint64_t number) noexcept
{
    if (Followed *one = find(connection, number))
    {
        one->answered = true;
        one->rolled_back = false;
    }
}

void
forget(PGconn *connection, std::uint64_t number) noexcept
{
    if (Watch *watch = of(connection))
        watch->followed.erase(std::remove_if(watch->followed.begin(), watch->followed.end(),
                                             [&](const Followed &one)
                                             { return one.number == number && !one.left; }),
                              watch->followed.end());
}

void
tell_if_unanswered(PGconn *connection, std::uint64_t number, std::string line, std::string perhaps)
{
    Followed *one = find(connection, number);
    if (one == nullptr)
        return;
    one->line = std::move(line);
    one->perhaps = std::move(perhaps);
    one->left = true;
    one->ended = one->ended || (one->answered && !one->savepoint);
    tell_followed(*of(connection));
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
