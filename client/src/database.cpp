#include "database.h"

#include "outbox/error.h"
#include "text.h"

#include <chrono>
#include <cstring>

#include <poll.h>

namespace outbox::v0::detail
{

namespace
{

using Clock = std::chrono::steady_clock;

// "1" comes back as "on" from a boolean setting only, not from a name that nobody has defined. The
// number is assigned at once, as mark_processed() would do next; on a standby that tells the error.
// Behind a connection that stays, as pgbouncer's, there may be another server than before.
constexpr const char *kBegin = "begin;"
                               " select case when not pg_catalog.pg_is_in_recovery()"
                               " then pg_catalog.pg_current_xact_id()::text end,"
                               " pg_catalog.pg_postmaster_start_time()::text, ''::text";
constexpr const char *kBeginGuarded = "begin; set local outbox.refuse_commit = 1;"
                                      " select case when not pg_catalog.pg_is_in_recovery()"
                                      " then pg_catalog.pg_current_xact_id()::text end,"
                                      " pg_catalog.pg_postmaster_start_time()::text,"
                                      " pg_catalog.current_setting('outbox.refuse_commit')";

} // namespace

Database::Database(const std::string &conninfo, const std::string &application,
                   const StopFlag &stop, const StopBudget &budget, const Log &log)
    : connector_(conninfo, application), stop_(stop), budget_(budget), log_(log),
      connection_(nullptr, &PQfinish)
{
    connector_.pass_notices_to([this](const char *text) { on_notice(this, text); });
}

// Its severity is only in its text, and may be translated there: then it is taken for the worst.
void
Database::on_notice(void *self, const char *text)
{
    const auto *database = static_cast<Database *>(self);
    const Log &log = database->log_;
    LogLevel level = LogLevel::warning;
    for (const char *less : {"NOTICE:", "INFO:", "LOG:", "DEBUG:"})
        if (std::strncmp(text, less, std::strlen(less)) == 0)
            level = LogLevel::info;
    try
    {
        log.write(level, "PostgreSQL: " + bounded(text, encoding_of(database->connection_.get())));
    }
    catch (const std::bad_alloc &)
    {
        log.warning("PostgreSQL: out of memory for a notice"); // libpq knows no exceptions
    }
}

// libpq shows us each result that anybody gets from the connection, so that nothing has to be asked
// of the server about a handler that leaves its transaction alone.
int
Database::on_event(PGEventId event, void *info, void *self)
{
    auto *database = static_cast<Database *>(self);
    // A handler may call PQfinish(), and what it has finished is not there any more.
    if (event == PGEVT_CONNDESTROY &&
        static_cast<PGEventConnDestroy *>(info)->conn == database->connection_.get())
        (void) database->connection_.release();
    if (event == PGEVT_CONNRESET)
        database->seen_.boundary = true;
    if (event == PGEVT_RESULTCREATE)
        database->seen_.note(static_cast<PGEventResultCreate *>(info)->result);
    return 1;
}

void
Database::connect()
{
    drop();
    connection_ = connector_.connect(stop_);
    ++session_;
    server_.clear();
    knows_guard_ = true;
    guarded_ = lent_ = false;
    seen_ = SeenStatements();
    restore_.clear();
    notice_receiver_ = PQsetNoticeReceiver(connection_.get(), nullptr, nullptr);
    (void) PQsetNoticeProcessor(connection_.get(), &on_notice, this);
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

// Until the socket is ready, or for a moment. Throws Stopped.
void
Database::wait(short events, AtStop at_stop)
{
    const bool waits_on = at_stop == AtStop::finish && stop_.raised();
    wait_for_socket(PQsocket(connection_.get()), events, waits_on ? 100 : -1,
                    waits_on ? nullptr : &stop_);
    if (stop_.raised() && (at_stop == AtStop::give_up || Clock::now() >= budget_.end()))
    {
        drop();
        throw Stopped();
    }
}

// In blocking mode libpq would wait for a server that does not read, whoever asks for a stop. What
// the server sends meanwhile is taken in, as it may wait for that before it reads on. The
// connection is in blocking mode again afterwards, for handlers.
void
Database::send(const char *sql, const std::vector<Param> &params, AtStop at_stop)
{
    PGconn *connection = connection_.get();
    require_usable(connection);
    (void) PQsetnonblocking(connection, 1); // fails if it is lost, which shows at once
    int sent = 0;
    if (params.empty())
        sent = PQsendQuery(connection, sql); // takes several statements
    else
    {
        const ParamArrays arrays(params);
        sent = PQsendQueryParams(connection, sql, arrays.count, nullptr, arrays.values.data(),
                                 arrays.lengths.data(), arrays.formats.data(), 0);
    }
    int left = sent == 0 ? -1 : PQflush(connection);
    while (left > 0)
    {
        wait(POLLIN | POLLOUT, at_stop);
        if (PQconsumeInput(connection) == 0)
        {
            // What the server has said before it closed the connection tells why.
            Result last(lost() ? PQgetResult(connection) : nullptr);
            if (last.get() != nullptr)
                (void) checked(connection, std::move(last));
            throw DatabaseError(connection_message(connection), "08006");
        }
        left = PQflush(connection);
    }
    if (left < 0)
        throw DatabaseError(connection_message(connection), lost() ? "08006" : "58000");
    (void) PQsetnonblocking(connection, 0); // nothing is left that it could wait for
}

// The next result of the statement that was sent; an empty one after the last.
Result
Database::next_result(AtStop at_stop)
{
    PGconn *connection = connection_.get();
    while (PQisBusy(connection) != 0)
    {
        wait(POLLIN, at_stop);
        if (PQconsumeInput(connection) == 0)
        {
            // What the server has said before it closed the connection tells why.
            Result last(lost() ? PQgetResult(connection) : nullptr);
            if (last.get() != nullptr)
                return last;
            throw DatabaseError(connection_message(connection), "08006");
        }
    }
    return Result(PQgetResult(connection));
}

Result
Database::exec(const char *sql, const std::vector<Param> &params, AtStop at_stop)
{
    send(sql, params, at_stop);
    Result last;
    for (Result result = next_result(at_stop); result.get() != nullptr;
         result = next_result(at_stop))
        last = std::move(result);
    return checked(connection_.get(), std::move(last));
}

void
Database::start_transaction(bool with_guard)
{
    const Result result = exec(with_guard ? kBeginGuarded : kBegin);
    transaction_ = result.text(0, 0);
    guarded_ = result.text(0, 2) == "on";
    const std::string server = result.text(0, 1);
    if (!server_.empty() && server_ != server)
        ++session_;
    server_ = server;
    fully_ = false;
    seen_ = SeenStatements();
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
        const std::string &code = error.code();
        if (!knows_guard_ || lost() || (code != "42602" && code != "42704"))
            throw;
        knows_guard_ = false;
    }
    rollback();
    (void) connection();
    start_transaction(false);
}

// pg_xact_status() refuses a number that was not given yet, as after a crash, or on a standby that
// had not got that far.
bool
Database::was_committed(const std::string &transaction)
{
    const Result result =
        exec("select case when $1::pg_catalog.xid8 operator(pg_catalog.<)"
             " pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())"
             " then pg_catalog.pg_xact_status($1::pg_catalog.xid8) operator(pg_catalog.=)"
             " 'committed' end",
             {transaction});
    return result.text(0, 0) == "t" || is_prepared(transaction);
}

bool
Database::is_prepared(const std::string &transaction)
{
    const Result result =
        exec("select from pg_catalog.pg_prepared_xacts p where p.transaction operator(pg_catalog.=)"
             " $1::pg_catalog.xid8::pg_catalog.xid"
             " and p.database operator(pg_catalog.=) pg_catalog.current_database()",
             {transaction});
    return result.rows() > 0;
}

// While the guard is on nobody can, and who takes it off shows it by the commit.
bool
Database::may_be_committed() const noexcept
{
    if (seen_.boundary || lost())
        return seen_.boundary || !guarded_;
    return in_pipeline_mode(connection_.get()) ||
           (state() != PQTRANS_INTRANS && state() != PQTRANS_INERROR);
}

bool
Database::still_open()
{
    if (state() != PQTRANS_INTRANS)
        return false;
    return !seen_.boundary ||
           exec("select pg_catalog.pg_current_xact_id_if_assigned()::text", {}, AtStop::finish)
                   .text(0, 0) == transaction_;
}

bool
Database::lost() const noexcept
{
    return !connection_ || PQstatus(connection_.get()) != CONNECTION_OK;
}

bool
Database::lost_while_idle() const noexcept
{
    return lost() || PQconsumeInput(connection_.get()) == 0 || lost();
}

PGTransactionStatusType
Database::state() const noexcept
{
    return PQtransactionStatus(connection_.get());
}

} // namespace outbox::v0::detail
