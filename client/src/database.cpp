#include "database.h"

#include "outbox/error.h"

#include <array>
#include <chrono>
#include <cstring>
#include <future>
#include <thread>

#include <poll.h>

namespace outbox::v0::detail
{

namespace
{

using Clock = std::chrono::steady_clock;

constexpr auto kGrace = std::chrono::seconds(10);
constexpr auto kCancelLimit = std::chrono::seconds(1);

// "1" comes back as "on" from a boolean setting only, not from a name that nobody has defined. The
// number is assigned at once, as mark_processed() would do next; on a standby that tells the error.
constexpr const char *kBegin = "begin;"
                               " select case when not pg_catalog.pg_is_in_recovery()"
                               " then pg_catalog.pg_current_xact_id()::text end, ''::text";
constexpr const char *kBeginGuarded = "begin; set local outbox.refuse_commit = 1;"
                                      " select case when not pg_catalog.pg_is_in_recovery()"
                                      " then pg_catalog.pg_current_xact_id()::text end,"
                                      " pg_catalog.current_setting('outbox.refuse_commit')";
constexpr const char *kAllowCommit = "set local outbox.refuse_commit = 0; ";

// DISCARD ALL, without temporary tables and prepared statements, which are costly to make and not
// in anybody's way.
constexpr const char *kResetSession =
    "; reset session authorization; reset role; reset all; close all; unlisten *;"
    " select pg_catalog.pg_advisory_unlock_all()";

// Whether a statement with this command tag may have begun or ended a transaction. ROLLBACK is also
// the tag of a rollback to a savepoint.
bool
is_boundary(const char *tag)
{
    for (const char *one : {"BEGIN", "START TRANSACTION", "COMMIT", "ROLLBACK"})
        if (std::strcmp(tag, one) == 0)
            return true;
    return std::strncmp(tag, "PREPARE TRANSACTION", 19) == 0;
}

bool
failed(const PGresult *result)
{
    const ExecStatusType status = PQresultStatus(result);
    return status == PGRES_FATAL_ERROR || status == PGRES_BAD_RESPONSE;
}

} // namespace

Database::Database(const std::string &conninfo, const std::string &application,
                   const StopFlag &stop)
    : connector_(conninfo, application), stop_(stop), connection_(nullptr, &PQfinish)
{
}

// libpq shows us each result that anybody gets from the connection, so that nothing has to be asked
// of the server about a handler that leaves its transaction alone.
int
Database::on_event(PGEventId event, void *info, void *self)
{
    auto *database = static_cast<Database *>(self);
    if (event == PGEVT_CONNRESET)
        database->boundary_ = true;
    if (event != PGEVT_RESULTCREATE)
        return 1;
    PGresult *result = static_cast<PGEventResultCreate *>(info)->result;
    if (is_boundary(PQcmdStatus(result)))
        database->boundary_ = true;
    if (failed(result))
    {
        const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        database->last_error_ = sqlstate == nullptr ? "" : sqlstate;
    }
    return 1;
}

void
Database::connect()
{
    drop();
    connection_ = connector_.connect(stop_);
    knows_guard_ = true;
    guarded_ = lent_ = boundary_ = false;
    last_error_.clear();
    if (PQregisterEventProc(connection_.get(), &on_event, "outbox", this) == 0)
        throw std::bad_alloc();
}

PGconn *
Database::connection()
{
    if (lost())
        connect();
    return connection_.get();
}

PGconn *
Database::lend()
{
    lent_ = true;
    return connection_.get();
}

// The next result of the statement that was sent; an empty one after the last.
Result
Database::next_result(AtStop at_stop)
{
    PGconn *connection = connection_.get();
    Clock::time_point deadline = Clock::time_point::max();
    while (PQisBusy(connection) != 0)
    {
        const bool waits_on = at_stop == AtStop::finish && stop_.raised();
        if (waits_on && deadline == Clock::time_point::max())
            deadline = Clock::now() + kGrace;
        wait_for_socket(PQsocket(connection), POLLIN, waits_on ? 100 : -1,
                        waits_on ? nullptr : &stop_);
        if (stop_.raised() && (at_stop == AtStop::give_up || Clock::now() >= deadline))
        {
            drop();
            throw Stopped();
        }
        if (PQconsumeInput(connection) == 0)
            throw DatabaseError(connection_message(connection), "08006");
    }
    return Result(PQgetResult(connection));
}

Result
Database::exec(const char *sql, const std::vector<Param> &params, AtStop at_stop)
{
    PGconn *connection = connection_.get();
    require_usable(connection);
    // The socket is in blocking mode, so this returns when all is sent.
    int sent = 0;
    if (params.empty())
        sent = PQsendQuery(connection, sql); // takes several statements
    else
    {
        const ParamArrays arrays(params);
        sent = PQsendQueryParams(connection, sql, arrays.count, nullptr, arrays.values.data(),
                                 arrays.lengths.data(), arrays.formats.data(), 0);
    }
    if (sent == 0)
        throw DatabaseError(connection_message(connection), lost() ? "08006" : "58000");
    Result last;
    for (Result result = next_result(at_stop); result.get() != nullptr;
         result = next_result(at_stop))
        last = std::move(result);
    return checked(connection, std::move(last));
}

void
Database::start_transaction(bool with_guard)
{
    const Result result = exec(with_guard ? kBeginGuarded : kBegin);
    transaction_ = result.text(0, 0);
    guarded_ = result.text(0, 1) == "on";
    boundary_ = false;
    last_error_.clear();
}

void
Database::begin()
{
    try
    {
        start_transaction(knows_guard_);
        return;
    }
    catch (const DatabaseError &error)
    {
        // An older library has reserved the names of settings.
        const std::string code = error.code();
        if (!knows_guard_ || lost() || (code != "42602" && code != "42704"))
            throw;
        knows_guard_ = false;
    }
    rollback();
    (void) connection();
    start_transaction(false);
}

bool
Database::was_committed(const std::string &transaction)
{
    const Result result =
        exec("select coalesce(pg_catalog.pg_xact_status($1::xid8) operator(pg_catalog.=) "
             "'committed', false) or exists (select from pg_catalog.pg_prepared_xacts p where "
             "p.transaction operator(pg_catalog.=) $1::xid8::xid)",
             {transaction});
    return result.text(0, 0) == "t";
}

void
Database::take_back() noexcept
{
    (void) PQsetnonblocking(connection_.get(),
                            0); // what is left to send shows as a running statement
}

bool
Database::still_open()
{
    if (state() != PQTRANS_INTRANS)
        return false;
    return !boundary_ ||
           exec("select pg_catalog.pg_current_xact_id_if_assigned()::text", {}, AtStop::finish)
                   .text(0, 0) == transaction_;
}

void
Database::commit()
{
    std::string sql = knows_guard_ ? kAllowCommit : "";
    sql += "commit";
    if (lent_)
        sql += kResetSession;
    PGconn *connection = connection_.get();
    require_usable(connection);
    if (PQsendQuery(connection, sql.c_str()) == 0)
        throw DatabaseError(connection_message(connection), lost() ? "08006" : "58000");
    bool committed = false;
    bool rolled_back = false;
    bool reset = true;
    Result error;
    while (PGresult *result = PQgetResult(connection))
    {
        Result owner(result);
        committed = committed || std::strcmp(PQcmdStatus(result), "COMMIT") == 0;
        // The command's name tells: of a transaction that has failed, COMMIT is a ROLLBACK.
        rolled_back = rolled_back || std::strcmp(PQcmdStatus(result), "ROLLBACK") == 0;
        if (failed(result) && !committed && error.get() == nullptr)
            error = std::move(owner);
        else if (failed(result))
            reset = false;
    }
    if (rolled_back)
        throw DatabaseError("the transaction was rolled back instead of committed", "25P02");
    if (error.get() != nullptr)
        (void) checked(connection, std::move(error));
    if (!committed)
        throw DatabaseError(connection_message(connection), "08006");
    if (!reset || lost())
        drop();
    while (PGnotify *notice = lost() ? nullptr : PQnotifies(connection_.get()))
        PQfreemem(notice);
    lent_ = false;
}

void
Database::rollback() noexcept
{
    if (!connection_)
        return;
    if (PQstatus(connection_.get()) == CONNECTION_OK &&
        PQpipelineStatus(connection_.get()) == PQ_PIPELINE_OFF && state() != PQTRANS_ACTIVE)
    {
        std::string sql;
        try
        {
            sql = state() == PQTRANS_IDLE ? "" : "rollback";
            if (lent_)
                sql += kResetSession;
        }
        catch (const std::exception &) // no memory
        {
            drop();
            return;
        }
        if (sql.empty())
            return;
        (void) PQsetnonblocking(connection_.get(), 0);
        PGresult *result = PQexec(connection_.get(), sql.c_str());
        const bool done =
            PQresultStatus(result) == PGRES_COMMAND_OK || PQresultStatus(result) == PGRES_TUPLES_OK;
        PQclear(result);
        if (done && state() == PQTRANS_IDLE)
        {
            lent_ = false;
            return;
        }
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
        std::thread thread(
            [request, done]
            {
                std::array<char, 256> message = {};
                (void) PQcancel(request, message.data(), static_cast<int>(message.size()));
                PQfreeCancel(request);
                done->set_value();
            });
        if (answer.wait_for(kCancelLimit) == std::future_status::ready)
            thread.join();
        else
            thread.detach();
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
    connection_.reset();
}

bool
Database::lost() const noexcept
{
    return !connection_ || PQstatus(connection_.get()) != CONNECTION_OK;
}

PGTransactionStatusType
Database::state() const noexcept
{
    return PQtransactionStatus(connection_.get());
}

} // namespace outbox::v0::detail
