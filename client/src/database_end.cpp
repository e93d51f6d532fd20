// The connection in a handler's hands, and how its transaction ends.
#include "database.h"

#include "detached_thread.h"
#include "outbox/error.h"
#include "unless_committed.h"

#include <array>
#include <cstring>
#include <future>

#include <poll.h>

namespace outbox::v0::detail
{

namespace
{

using Clock = std::chrono::steady_clock;

constexpr auto kRollbackLimit = std::chrono::milliseconds(5000);
constexpr auto kRollbackLimitAtStop = std::chrono::milliseconds(1000);
constexpr auto kCancelLimit = std::chrono::seconds(1);

constexpr const char *kAllowCommit = "set local outbox.refuse_commit = 0; ";
// The setting was a placeholder when the transaction began. By now the library is loaded, and has
// made it its own, or thrown it out if it is an older one.
constexpr const char *kAllowCommitIfKnown =
    "select case when pg_catalog.current_setting('outbox.refuse_commit', true) is not null"
    " then pg_catalog.set_config('outbox.refuse_commit', '0', true) end; ";

// DISCARD ALL, without temporary tables, prepared statements and plans, which are costly to make
// and not in anybody's way.
constexpr const char *kResetSession =
    "; reset session authorization; reset role; reset all; close all; unlisten *;"
    " discard sequences; select pg_catalog.pg_advisory_unlock_all()";

// What the server does at a commit, with the role and the settings that a handler has left:
// deferred triggers, ON COMMIT of temporary tables, the end of cursors and advisory locks of the
// session.
constexpr const char *kFinishHandler = "; set local outbox.refuse_commit = 1";
// What is quickly reset. The server tells whether a handler has left anything else, but for
// channels: those are only listened to from the commit on.
constexpr const char *kResetQuickly = "; reset all; discard sequences";
constexpr const char *kAskWhatIsLeft = "show outbox.session_changes";

// What the server reports of a session, and a pooler gives to each server connection that it uses
// for us. RESET ALL takes the values that the pooler has opened it with instead.
constexpr const char *kReported[] = {
    "client_encoding", "DateStyle", "TimeZone", "IntervalStyle", "standard_conforming_strings",
    "application_name"};

} // namespace

PGconn *
Database::lend()
{
    if (!lent_)
    {
        reported_.clear();
        for (const char *name : kReported)
        {
            const char *value = PQparameterStatus(connection_.get(), name);
            reported_.emplace_back(value == nullptr ? "" : value);
        }
    }
    lent_ = true;
    return connection_.get();
}

// What points into the handler goes first: it may be gone already.
void
Database::take_back() noexcept
{
    PGconn *connection = connection_.get();
    (void) PQsetNoticeReceiver(connection, notice_receiver_, nullptr);
    (void) PQsetNoticeProcessor(connection, &on_notice, this);
    PQuntrace(connection);
    (void) PQsetErrorVerbosity(connection, PQERRORS_DEFAULT);
    (void) PQsetErrorContextVisibility(connection, PQSHOW_CONTEXT_ERRORS);
    (void) PQsetnonblocking(connection, 0); // what is left to send shows as a running statement
}

// What is sent after the end of the transaction, together with it.
std::string
Database::reset_session() const
{
    return lent_ ? kResetSession + restore_ : "";
}

// Behind a pooler RESET ALL has taken what we, or the connection string, had asked for. That is put
// back at once, and from now on together with each RESET ALL.
void
Database::restore_what_a_pooler_changed()
{
    std::string missing;
    for (std::size_t i = 0; i < reported_.size(); ++i)
    {
        const char *now = PQparameterStatus(connection_.get(), kReported[i]);
        if (now == nullptr || reported_[i] == now)
            continue;
        const std::unique_ptr<char, decltype(&PQfreemem)> value(
            PQescapeLiteral(connection_.get(), reported_[i].data(), reported_[i].size()),
            &PQfreemem);
        if (!value)
            throw std::bad_alloc();
        missing += std::string("; select pg_catalog.set_config('") + kReported[i] + "', " +
                   value.get() + ", false)";
    }
    if (missing.empty())
        return;
    restore_ += missing;
    (void) exec(missing.c_str() + 2, {}, AtStop::finish);
}

// The session is as it was before the handler, or gone.
void
Database::back_in_order() noexcept
{
    while (PGnotify *notice = lost() ? nullptr : PQnotifies(connection_.get()))
        PQfreemem(notice);
    try
    {
        if (lent_ && !lost())
            restore_what_a_pooler_changed();
    }
    catch (const std::exception &)
    {
        drop(); // the next one is in order
    }
    lent_ = false;
}

// What is left, by its names, after the end of the last handler and its savepoint, and the reset.
std::string
Database::enter_handler(Apart how, const std::string &reset)
{
    std::string sql;
    if (how == Apart::savepoint && !reset.empty())
        sql += "; release outbox_handler";
    if (!reset.empty())
        sql += kFinishHandler + reset;
    if (how == Apart::savepoint)
        sql += "; savepoint outbox_handler";
    sql += std::string("; ") + kAskWhatIsLeft;
    std::string left = exec(sql.c_str() + 2, {}, AtStop::finish).text(0, 0);
    if (how == Apart::savepoint) // ours is released with all that are in it
        note_no_savepoint(connection_.get());
    return left;
}

// Most handlers leave nothing that takes the full reset, and which do is not known before they have
// been called.
bool
Database::set_apart(Apart how, bool first, std::string *why)
{
    const SeenStatements before = seen_;
    if (how == Apart::reset && before.savepoint)
    {
        *why = "a handler has set a savepoint";
        return false;
    }
    const std::string quickly = kResetQuickly + restore_;
    std::string left = enter_handler(how, first ? "" : fully_ ? reset_session() : quickly);
    if (!left.empty() && !first && !fully_)
    {
        fully_ = true; // and at once for those that follow
        left = enter_handler(how, reset_session());
    }
    restore_what_a_pooler_changed();
    seen_ = before;
    if (left.empty())
        return true;
    *why = "a handler has left what cannot be reset: " + left;
    return false;
}

Database::Ending
Database::end_transaction()
{
    Ending ending;
    try
    {
        for (Result result = next_result(AtStop::finish); result.get() != nullptr;
             result = next_result(AtStop::finish))
        {
            const char *tag = PQcmdStatus(result.get());
            // The command's name tells: of a transaction that has failed, COMMIT is a ROLLBACK.
            ending.committed = ending.committed || std::strcmp(tag, "COMMIT") == 0;
            ending.rolled_back = ending.rolled_back || std::strcmp(tag, "ROLLBACK") == 0;
            const bool bad = failed(result.get());
            ending.reset = ending.reset && !bad;
            if (bad && !ending.committed && ending.error.get() == nullptr)
                ending.error = std::move(result);
        }
    }
    catch (const std::exception &) // lost, or silent for too long after a stop
    {
        if (!ending.committed && ending.error.get() == nullptr)
            throw;
        ending.reset = false;
    }
    return ending;
}

void
Database::commit()
{
    std::string sql = guarded_ ? kAllowCommit : knows_guard_ ? kAllowCommitIfKnown : "";
    sql += "commit" + reset_session();
    send(sql.c_str(), {}, AtStop::finish);
    Ending ending = end_transaction();
    if (ending.rolled_back)
        throw DatabaseError("the transaction was rolled back instead of committed", "25P02");
    if (ending.error.get() != nullptr)
        (void) checked(connection_.get(), std::move(ending.error));
    if (!ending.committed)
        throw DatabaseError(connection_message(connection_.get()), "08006");
    if (!ending.reset || lost())
        drop();
    back_in_order();
}

// False if it fails or is not answered in time. Nothing depends on the answer: what is not
// committed is gone when the connection is.
bool
Database::run_briefly(const std::string &sql)
{
    PGconn *connection = connection_.get();
    (void) PQsetnonblocking(connection, 1); // as in send()
    if (PQsendQuery(connection, sql.c_str()) == 0)
        return false;
    int unsent = PQflush(connection);
    const Clock::time_point deadline =
        Clock::now() + (stop_.raised() ? kRollbackLimitAtStop : kRollbackLimit);
    bool done = true;
    for (;;)
    {
        while (unsent > 0 || PQisBusy(connection) != 0)
        {
            const auto left =
                std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
            if (left.count() <= 0)
                return false;
            const short events = unsent > 0 ? POLLIN | POLLOUT : POLLIN;
            wait_for_socket(PQsocket(connection), events, static_cast<int>(left.count()), nullptr);
            if (PQconsumeInput(connection) == 0)
                return false;
            unsent = unsent > 0 ? PQflush(connection) : 0;
        }
        const Result result(PQgetResult(connection));
        if (unsent < 0)
            return false;
        if (result.get() == nullptr)
            return done && PQsetnonblocking(connection, 0) == 0 && state() == PQTRANS_IDLE;
        done = done && !failed(result.get());
    }
}

void
Database::rollback() noexcept
{
    if (!connection_)
        return;
    try
    {
        if (!lost() && !in_pipeline_mode(connection_.get()) && state() != PQTRANS_ACTIVE)
        {
            const std::string sql = (state() == PQTRANS_IDLE ? "" : "rollback") + reset_session();
            if (sql.empty() || run_briefly(sql))
            {
                back_in_order();
                return;
            }
        }
    }
    catch (const std::exception &) // no memory
    {
    }
    drop();
}

// A backend that waits for a lock would notice the closed connection only later. libpq's function
// waits for as long as the server lets it, so it has a thread and a second; without success the
// backend ends by itself, later.
void
Database::cancel() noexcept
{
    PGcancel *request = PQgetCancel(connection_.get());
    if (request == nullptr)
        return;
    try
    {
        auto done = std::make_shared<std::promise<void>>();
        std::future<void> answer = done->get_future();
        start_detached(
            [request, done]
            {
                std::array<char, 256> message = {};
                (void) PQcancel(request, message.data(), static_cast<int>(message.size()));
                PQfreeCancel(request);
                done->set_value();
            });
        (void) answer.wait_for(kCancelLimit); // an answer says nothing that matters
    }
    catch (const std::exception &) // no memory, no thread
    {
        PQfreeCancel(request);
    }
}

void
Database::drop() noexcept
{
    if (!connection_)
        return;
    if (PQstatus(connection_.get()) == CONNECTION_OK &&
        PQtransactionStatus(connection_.get()) == PQTRANS_ACTIVE)
        cancel();
    // PQfinish() sends a farewell, and would wait for a server that does not read.
    (void) PQsetnonblocking(connection_.get(), 1);
    connection_.reset();
}

} // namespace outbox::v0::detail
