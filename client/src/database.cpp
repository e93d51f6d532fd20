#include "database.h"

#include "outbox/error.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include <poll.h>

namespace outbox::v0::detail
{

namespace
{

constexpr auto kConnectLimit = std::chrono::seconds(10);

using Clock = std::chrono::steady_clock;

// libpq's message would quote parts of the text, and there may be a password in it.
void
check_conninfo(const std::string &conninfo)
{
    char *message = nullptr;
    PQconninfoOption *options = PQconninfoParse(conninfo.c_str(), &message);
    const bool understood = options != nullptr;
    PQconninfoFree(options);
    PQfreemem(message);
    if (!understood || conninfo.find('\0') != std::string::npos)
        throw UsageError("conninfo is not a connection string of libpq");
}

} // namespace

Database::Database(const std::string &conninfo, const std::string &application,
                   const StopFlag &stop)
    // The caller's own settings come last and win.
    : keywords_{"client_encoding",
                "keepalives_idle",
                "keepalives_interval",
                "keepalives_count",
                "tcp_user_timeout",
                "fallback_application_name",
                "dbname"},
      values_{"UTF8", "10", "5", "3", "30000", application, conninfo}, stop_(stop),
      connection_(nullptr, &PQfinish)
{
    check_conninfo(conninfo);
}

PGconn *
Database::connection()
{
    if (!connection_ || PQstatus(connection_.get()) != CONNECTION_OK)
        connect();
    return connection_.get();
}

// Returns when the socket is ready, or after the time; throws when a stop is asked for.
void
Database::wait_for_socket(short events, int timeout_ms)
{
    std::array<pollfd, 2> fds = {
        {{PQsocket(connection_.get()), events, 0}, {stop_.fd(), POLLIN, 0}}};
    if (poll(fds.data(), fds.size(), timeout_ms) < 0 && errno != EINTR)
        throw DatabaseError("poll: " + std::string(std::strerror(errno)), "58030");
    if (stop_.raised())
    {
        drop();
        throw Stopped();
    }
}

void
Database::connect()
{
    std::vector<const char *> keywords;
    std::vector<const char *> values;
    for (std::size_t i = 0; i < keywords_.size(); ++i)
    {
        keywords.push_back(keywords_[i].c_str());
        values.push_back(values_[i].c_str());
    }
    keywords.push_back(nullptr);
    values.push_back(nullptr);

    connection_.reset(PQconnectStartParams(keywords.data(), values.data(), 1));
    if (!connection_)
        throw std::bad_alloc();
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;
    const auto deadline = Clock::now() + kConnectLimit;
    while (PQstatus(connection_.get()) != CONNECTION_BAD && next != PGRES_POLLING_OK &&
           next != PGRES_POLLING_FAILED)
    {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
        if (left <= 0)
        {
            drop();
            throw DatabaseError("no connection to PostgreSQL within 10 s", "08001");
        }
        wait_for_socket(next == PGRES_POLLING_READING ? POLLIN : POLLOUT, static_cast<int>(left));
        next = PQconnectPoll(connection_.get());
    }
    if (PQstatus(connection_.get()) != CONNECTION_OK)
    {
        const std::string message = connection_message(connection_.get());
        drop();
        throw DatabaseError(message, "08001");
    }
}

// The next result of the statement that was sent; an empty one after the last.
Result
Database::next_result()
{
    PGconn *connection = connection_.get();
    while (PQisBusy(connection) != 0)
    {
        wait_for_socket(POLLIN, -1);
        if (PQconsumeInput(connection) == 0)
            throw DatabaseError(connection_message(connection), "08006");
    }
    return Result(PQgetResult(connection));
}

Result
Database::exec(const char *sql, const std::vector<Param> &params)
{
    PGconn *connection = connection_.get();
    require_usable(connection);
    const ParamArrays arrays(params);
    // The socket stays in blocking mode, so this returns when all is sent.
    if (PQsendQueryParams(connection, sql, arrays.count, nullptr, arrays.values.data(),
                          arrays.lengths.data(), arrays.formats.data(), 0) == 0)
        throw DatabaseError(connection_message(connection), lost() ? "08006" : "58000");
    Result last;
    for (Result result = next_result(); result.get() != nullptr; result = next_result())
        last = std::move(result);
    return checked(connection, std::move(last));
}

void
Database::begin()
{
    (void) exec("begin");
}

void
Database::commit()
{
    const Result result = detail::exec(connection_.get(), "commit");
    // The command's name tells: of a transaction that has failed, COMMIT is a ROLLBACK.
    if (std::strcmp(PQcmdStatus(result.get()), "COMMIT") != 0)
        throw DatabaseError("the transaction was rolled back instead of committed", "25P02");
}

void
Database::rollback() noexcept
{
    if (!connection_)
        return;
    if (PQstatus(connection_.get()) == CONNECTION_OK &&
        PQpipelineStatus(connection_.get()) == PQ_PIPELINE_OFF)
    {
        switch (PQtransactionStatus(connection_.get()))
        {
        case PQTRANS_IDLE:
            return;
        case PQTRANS_INTRANS:
        case PQTRANS_INERROR:
        {
            PGresult *result = PQexec(connection_.get(), "rollback");
            const bool done = PQresultStatus(result) == PGRES_COMMAND_OK;
            PQclear(result);
            if (done)
                return;
            break;
        }
        default: // a statement is still running
            break;
        }
    }
    drop();
}

void
Database::drop() noexcept
{
    if (!connection_)
        return;
    if (PQstatus(connection_.get()) == CONNECTION_OK &&
        PQtransactionStatus(connection_.get()) == PQTRANS_ACTIVE)
    {
        // A backend that waits for a lock would notice the closed connection only later.
        if (PGcancel *cancel = PQgetCancel(connection_.get()))
        {
            std::array<char, 256> message = {};
            // Without success the backend ends by itself, later.
            (void) PQcancel(cancel, message.data(), static_cast<int>(message.size()));
            PQfreeCancel(cancel);
        }
    }
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
