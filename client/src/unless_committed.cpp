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

// More in one transaction are not followed: those of the oldest ones are forgotten.
constexpr std::size_t kMostFollowed = 1000;

// What a statement has done to its transaction, by its command tag.
enum class Done
{
    nothing,
    begin,
    savepoint,
    release,
    rollback, // to a savepoint also, and the COMMIT of a transaction that has failed
    commit,
    prepare
};

Done
what_is_done(const char *tag)
{
    constexpr std::pair<const char *, Done> kTags[] = {{"BEGIN", Done::begin},
                                                       {"START TRANSACTION", Done::begin},
                                                       {"SAVEPOINT", Done::savepoint},
                                                       {"RELEASE", Done::release},
                                                       {"ROLLBACK", Done::rollback},
                                                       {"COMMIT", Done::commit},
                                                       {"PREPARE TRANSACTION", Done::prepare}};
    for (const auto &[name, done] : kTags)
        if (std::strcmp(tag, name) == 0)
            return done;
    return Done::nothing;
}

// A transaction with a key in it. No tag says which savepoint it is about, so savepoints are
// counted, the most that there can be: one that is released is taken for the last.
struct Followed
{
    void look_at(Done done)
    {
        if (ended)
            return;
        if (done == Done::savepoint)
            ++(answered ? behind : within);
        else if (done == Done::release && behind + within > 0)
            --(behind > 0 ? behind : within);
        else if (done == Done::rollback)
            rolled_back = true;
        if (done == Done::savepoint || done == Done::release)
            open = true;
        else if (done == Done::rollback)
            open = false;
        ended = done == Done::commit || done == Done::prepare || (kept && done == Done::rollback);
        unanswered = ended && (!answered || rolled_back);
        // A BEGIN within a transaction is one that goes on, so it only tells behind a ROLLBACK.
        ended = ended || (done == Done::begin && rolled_back && !open);
        // No rollback divides the request: it is undone as a whole, or nothing of it.
        ended =
            ended || (within == 0 && (rolled_back ? done == Done::rollback : answered && !kept));
    }

    std::uint64_t number = 0;
    std::size_t within = 0;   // savepoints that were set between the request's begin and its answer
    std::size_t behind = 0;   // and since
    bool answered = false;    // completed or released, though that may have been undone
    bool released = false;    // that was the answer
    bool rolled_back = false; // since the answer, if there is one; to a savepoint at least
    bool open = false;        // the transaction has gone on since then
    bool kept = false;        // the request is committed, and only its answer is in a transaction
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
    bool failed = false; // the last statement did
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

// An error leaves a transaction in which nothing succeeds but a ROLLBACK, or it was the COMMIT's:
// then the transaction is gone, and what succeeds next shows it. What has no tag, such as a
// statement that is only prepared, shows nothing.
void
look_at(const PGresult *result, Watch &watch)
{
    const ExecStatusType status = PQresultStatus(result);
    const char *tag = PQcmdStatus(const_cast<PGresult *>(result)); // NOLINT: it only reads
    if (status == PGRES_FATAL_ERROR && PQresultErrorField(result, PG_DIAG_SQLSTATE) != nullptr)
        watch.failed = true; // the server says so, and not libpq
    if ((status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) || tag[0] == '\0')
        return;
    const Done done = what_is_done(tag);
    const bool gone = std::exchange(watch.failed, false) && done != Done::rollback;
    if (done == Done::nothing && !gone)
        return;
    if (gone || done == Done::rollback || done == Done::prepare)
        tell(watch);
    if (done == Done::commit)
        watch.lines.clear();
    for (Followed &one : watch.followed)
    {
        one.look_at(gone ? Done::rollback : done);
        one.ended = one.ended || gone;
    }
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
            auto &all = watch->followed; // gone, unless the commit got there: nobody knows
            const auto open = [](const Followed &one) { return !one.ended; };
            all.erase(std::remove_if(all.begin(), all.end(), open), all.end());
            watch->failed = false;
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
    watch.failed = false;
    if (watch.followed.size() >= kMostFollowed)
        watch.followed.erase(watch.followed.begin());
    watch.followed.emplace_back();
    return watch.followed.back().number = ++watch.last_number;
}

void
note_answer(PGconn *connection, std::uint64_t number, bool released) noexcept
{
    if (Followed *one = find(connection, number))
    {
        one->kept = one->kept || (one->ended && one->unanswered);
        one->ended = one->unanswered = false;
        one->answered = true;
        one->released = released;
        one->rolled_back = false;
    }
}

void
note_free(PGconn *connection, const std::string &line) noexcept
{
    Watch *watch = of(connection);
    if (watch == nullptr)
        return;
    const auto undone = [&](Followed &one)
    {
        const bool same = one.left && one.line == line;
        one.rolled_back = one.rolled_back && !same;
        return same && !one.released;
    };
    auto &all = watch->followed;
    all.erase(std::remove_if(all.begin(), all.end(), undone), all.end());
}

void
note_no_savepoint(PGconn *connection) noexcept
{
    Watch *watch = of(connection);
    if (watch == nullptr)
        return;
    for (Followed &one : watch->followed)
    {
        one.within = one.behind = 0;
        one.look_at(Done::nothing);
    }
    tell_followed(*watch);
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
    one->look_at(Done::nothing);
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
