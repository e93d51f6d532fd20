#include "database.h"

#include "conninfo.h"
#include "errors.h"
#include "output.h"
#include "passwords.h"
#include "standard_output.h"
#include "terminal.h"
#include "units.h"

#include "client/src/text.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include <poll.h>
#include <sys/resource.h>

namespace outbox::ctl
{

namespace
{

constexpr const char *kConnectLimit = "10"; // seconds, for each address
constexpr auto kAnswerLimit = std::chrono::seconds(60);
constexpr long kMostMemory = 2L * 1024 * 1024; // KiB; whole answers are held

// Of the transaction alone: a pooler gives the connection to somebody else after it, who would work
// with our settings.
constexpr const char *kBegin =
    "begin isolation level read committed; set local search_path = pg_catalog; "
    "set local timezone = 'UTC'; set local datestyle = 'ISO'; set local extra_float_digits = 1; "
    "set local bytea_output = 'hex'";

constexpr const char *kUntranslatable = "22P05";
constexpr const char *kNotInEncoding = "22021";

// The one encoding of databases that PostgreSQL does not convert from and to UTF-8.
constexpr const char *kWithoutUtf8 = "MULE_INTERNAL";

// It is the same in each encoding.
bool
is_ascii(const Text &text)
{
    return !text || std::all_of(text->begin(), text->end(),
                                [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// At most until now, in KiB.
long
memory_used()
{
    rusage used = {};
    return getrusage(RUSAGE_SELF, &used) == 0 ? used.ru_maxrss : 0;
}

// All that libpq and the server say passes here.
std::string
said(const char *text)
{
    std::string result = without_passwords(text == nullptr ? "" : text);
    while (!result.empty() && (result.back() == '\n' || result.back() == ' '))
        result.pop_back();
    return result;
}

// Passwords first: half of one would not be known.
std::string
said_briefly(const char *text)
{
    return outbox::v0::detail::bounded(said(text));
}

std::string
error_field(const PGresult *result, int code)
{
    return said_briefly(PQresultErrorField(result, code));
}

void
tell_notice(const std::string &text)
{
    std::string lines;
    for (std::size_t begin = 0; begin <= text.size();)
    {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        lines += (begin == 0 ? "" : "\n  ") + printable(text.substr(begin, end - begin));
        begin = end + 1;
    }
    Output::remark(lines);
}

// A server may send anything instead.
std::string
sqlstate_of(const PGresult *result)
{
    const std::string code = error_field(result, PG_DIAG_SQLSTATE);
    const auto fits = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z'); };
    return code.size() == 5 && std::all_of(code.begin(), code.end(), fits) ? code : "";
}

} // namespace

Database::Database(const std::string &conninfo)
    : conninfo_(conninfo), connection_(nullptr, &PQfinish)
{
    check_conninfo(conninfo);
    learn_passwords_of(conninfo);
    try
    {
        connect();
    }
    catch (const ConnectionError &)
    {
        if (PQconnectionNeedsPassword(connection_.get()) == 0 || !can_ask())
            throw;
        password_ =
            ask_password("Password for user " + printable(said(PQuser(connection_.get()))) + ": ");
        learn_password(password_);
        connect();
    }
}

void
Database::reconnect()
{
    connect();
}

namespace
{

// What to do about a refused connection. On a server as distributions set it up, the role of the
// system's user is asked for first, and often there is none.
std::string
remedy_of(const std::string &refusal)
{
    const bool of_system = refusal.find("Peer authentication failed") != std::string::npos ||
                           refusal.find("role \"root\" does not exist") != std::string::npos;
    const bool of_nobody = refusal.find("Is the server running locally") != std::string::npos;
    return std::string(
               of_system   ? "On the server itself \"sudo -u postgres outboxctl\" connects as "
                             "the superuser postgres. Otherwise "
               : of_nobody ? "No server listens there. On Debian \"pg_lsclusters\" shows those of "
                             "this machine, and their logs why one has not started. Otherwise "
                           : "") +
           "-d, PGHOST, PGPORT, PGUSER and PGDATABASE say where to connect, as for psql; "
           "PGPASSWORD or ~/.pgpass has the password.";
}

} // namespace

void
Database::connect()
{
    // libpq asks the environment last, after a service file.
    if (setenv("PGCONNECT_TIMEOUT", kConnectLimit, 0) != 0)
        throw std::bad_alloc();
    // What stands before dbname yields to what the connection string says. No environment variable
    // may change how we read answers, so these come after it.
    Connector::Settings settings = {{"fallback_application_name", "outboxctl"}};
    if (!conninfo_.empty())
        settings.emplace_back("dbname", conninfo_);
    if (!password_.empty())
        settings.emplace_back("password", password_);
    settings.emplace_back("client_encoding", "UTF8");
    open(settings);
    if (refusal_.find(kWithoutUtf8) != std::string::npos)
    {
        settings.back().second = kWithoutUtf8;
        open(settings);
    }
    const char *encoding = PQparameterStatus(connection_.get(), "server_encoding");
    without_utf8_ = encoding != nullptr && std::string(encoding) == kWithoutUtf8;
    if (!refusal_.empty())
        throw ConnectionError(refusal_, remedy_of(refusal_));
    // In blocking mode libpq would wait for a server that does not read, heedless of time and
    // signals, even for the word that it sends at the end.
    if (PQsetnonblocking(connection_.get(), 1) != 0)
        throw ConnectionError(connection_error());
    // Notices are for programs that handle them.
    PQsetNoticeProcessor(
        connection_.get(), [](void *, const char *) {}, nullptr);
    user_ = said(query("select current_user::text as name").raw(0, "name").value_or("").c_str());
}

void
Database::open(const Connector::Settings &settings)
{
    Connected connected = ctl::connect(settings);
    connection_ = std::move(connected.connection);
    learn_passwords_of(connection_.get());
    for (const std::string &notice : connected.notices)
        tell_notice(said_briefly(notice.c_str()));
    refusal_ = said_briefly(connected.error.c_str());
}

std::string
Database::connection_error() const
{
    return said_briefly(PQerrorMessage(connection_.get()));
}

std::string
Database::name() const
{
    return said(PQdb(connection_.get()));
}

std::string
Database::server_version() const
{
    const char *version = PQparameterStatus(connection_.get(), "server_version");
    const std::string text = said(version == nullptr ? "?" : version);
    return text.substr(0, text.find(' '));
}

std::string
Database::quoted_user()
{
    return said(
        query("select quote_ident(current_user) as quoted").raw(0, "quoted").value_or("").c_str());
}

std::string
Database::place() const
{
    const std::string host = said(PQhost(connection_.get()));
    return (host.rfind('/', 0) == 0 ? "socket " : "") + host + " port " +
           said(PQport(connection_.get()));
}

// One text that has no UTF-8 must not hide all the others, so such an answer comes in the bytes of
// the database.
Rows
Database::query(const std::string &sql, const std::vector<Text> &parameters)
{
    const auto deadline = Clock::now() + kAnswerLimit;
    try
    {
        Rows rows = within_transaction(kBegin, sql, parameters, deadline);
        send("commit", deadline);
        return rows;
    }
    catch (const Error &error)
    {
        if ((error.sqlstate() != kUntranslatable && error.sqlstate() != kNotInEncoding) ||
            !std::all_of(parameters.begin(), parameters.end(), is_ascii))
            throw;
    }
    const std::string begin = std::string(kBegin) + "; set local client_encoding = 'SQL_ASCII'";
    Rows rows = within_transaction(begin.c_str(), sql, parameters, deadline);
    send("commit", deadline);
    return rows;
}

Rows
Database::change(const std::string &effect, const std::string &sql,
                 const std::vector<Text> &parameters)
{
    const auto deadline = Clock::now() + kAnswerLimit;
    Rows rows = within_transaction(kBegin, sql, parameters, deadline);
    try
    {
        send("commit", deadline);
    }
    catch (const Ended &end)
    {
        if (end.leaves_doubt())
            note_doubt(effect);
        throw;
    }
    return rows;
}

// Leaves the transaction open, unless the statement fails.
Rows
Database::within_transaction(const char *begin, const std::string &sql,
                             const std::vector<Text> &parameters, Clock::time_point deadline)
{
    if (without_utf8_ && !std::all_of(parameters.begin(), parameters.end(), is_ascii))
        throw Error(kFailed,
                    "the database is in MULE_INTERNAL, which PostgreSQL does not convert from "
                    "UTF-8: only ASCII can be sent to it",
                    "", "", "0A000");
    PGconn *connection = connection_.get();
    std::vector<const char *> values;
    values.reserve(parameters.size());
    for (const Text &parameter : parameters)
        values.push_back(parameter ? parameter->c_str() : nullptr);
    send(begin, deadline);
    if (PQsendQueryParams(connection, sql.c_str(), static_cast<int>(values.size()), nullptr,
                          values.data(), nullptr, nullptr, 0) == 0)
        throw ConnectionError(connection_error());
    PGresult *result = last_result(deadline);
    try
    {
        return checked(result);
    }
    catch (const ConnectionError &)
    {
        throw;
    }
    catch (const Error &)
    {
        send("rollback", deadline);
        throw;
    }
}

void
Database::send(const char *statements, Clock::time_point deadline)
{
    if (PQsendQuery(connection_.get(), statements) == 0)
        throw ConnectionError(connection_error());
    (void) checked(last_result(deadline));
}

// Several statements have a result each, up to the first that fails; then comes a null one.
PGresult *
Database::last_result(Clock::time_point deadline)
{
    PGconn *connection = connection_.get();
    std::unique_ptr<PGresult, decltype(&PQclear)> result(nullptr, &PQclear);
    PostponedStop stop;
    for (;;)
    {
        // A server that always has something to say is never waited for.
        if (Clock::now() >= deadline)
            throw ConnectionError("the server did not finish its answer within " +
                                  std::to_string(kAnswerLimit.count()) + " s");
        if (memory_used() > kMostMemory)
            throw ConnectionError("the server's answer takes more than 2 GiB of memory");
        const int unsent = PQflush(connection);
        if (unsent < 0)
            throw ConnectionError(connection_error());
        if (PQisBusy(connection) == 0)
        {
            PGresult *next = PQgetResult(connection);
            if (next == nullptr)
                return result.release();
            result.reset(next);
            const ExecStatusType status = PQresultStatus(next);
            // libpq would give this again and again, as it waits for us to copy.
            if (status == PGRES_COPY_OUT || status == PGRES_COPY_IN || status == PGRES_COPY_BOTH)
                throw ConnectionError("the server answers with COPY, which was not asked for");
            continue;
        }
        const short events = static_cast<short>(POLLIN | (unsent > 0 ? POLLOUT : 0));
        const Woken woken = wait_for(PQsocket(connection), events, deadline);
        stop.note(woken);
        if (woken == Woken::kTimeout)
            throw ConnectionError("the server did not answer within " +
                                  std::to_string(kAnswerLimit.count()) + " s");
        if (woken == Woken::kReady && PQconsumeInput(connection) == 0)
            throw ConnectionError(connection_error());
    }
}

Rows
Database::checked(PGresult *raw)
{
    Rows rows(raw);
    const ExecStatusType status = PQresultStatus(raw);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
        return rows;
    if (PQstatus(connection_.get()) == CONNECTION_BAD)
        throw ConnectionError(connection_error());
    const std::string message = error_field(raw, PG_DIAG_MESSAGE_PRIMARY);
    const std::string sqlstate = sqlstate_of(raw);
    // The server ends the connection, and libpq need not have noticed yet.
    if (sqlstate == "57P01" || sqlstate == "57P02" || sqlstate == "57P03" || sqlstate == "57P05")
        throw ConnectionError(message);
    throw Error(kFailed, message.empty() ? connection_error() : message,
                error_field(raw, PG_DIAG_MESSAGE_HINT), error_field(raw, PG_DIAG_MESSAGE_DETAIL),
                sqlstate);
}

} // namespace outbox::ctl
