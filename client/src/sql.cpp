#include "sql.h"

#include "outbox/error.h"
#include "text.h"

#include <climits>

namespace outbox::v0::detail
{

namespace
{

std::string
error_field(const PGconn *connection, const PGresult *result, int code)
{
    const char *text = PQresultErrorField(result, code);
    return text == nullptr ? "" : bounded(text, encoding_of(connection));
}

} // namespace

int
encoding_of(const PGconn *connection)
{
    const int encoding = PQclientEncoding(connection);
    if (encoding >= 0)
        return encoding;
    const char *name = PQparameterStatus(connection, "client_encoding"); // stays when it is lost
    const int last = name == nullptr ? -1 : pg_char_to_encoding(name);
    return last >= 0 ? last : utf8();
}

std::string
connection_message(PGconn *connection)
{
    const char *text = PQerrorMessage(connection);
    return one_line(text == nullptr ? "" : bounded(text, encoding_of(connection)));
}

std::string
Result::bytes(int row, int column) const
{
    std::size_t size = 0;
    const char *text = PQgetvalue(result_.get(), row, column);
    std::unique_ptr<unsigned char, decltype(&PQfreemem)> data(
        PQunescapeBytea(reinterpret_cast<const unsigned char *>(text), &size), &PQfreemem);
    if (!data)
        throw std::bad_alloc();
    return std::string(reinterpret_cast<const char *>(data.get()), size);
}

ParamArrays::ParamArrays(const std::vector<Param> &params) : count(static_cast<int>(params.size()))
{
    for (const Param &param : params)
    {
        if (param.value.size() > INT_MAX)
            throw UsageError("a value of over 2 GB cannot be sent", "54000");
        values.push_back(param.null ? nullptr : param.value.data());
        lengths.push_back(static_cast<int>(param.value.size()));
        formats.push_back(param.binary ? 1 : 0);
    }
}

bool
in_pipeline_mode(const PGconn *connection)
{
#ifdef LIBPQ_HAS_PIPELINING
    return PQpipelineStatus(connection) != PQ_PIPELINE_OFF;
#else
    (void) connection;
    return false;
#endif
}

void
require_usable(PGconn *connection)
{
    if (connection == nullptr)
        throw UsageError("there is no connection", "55000");
    if (in_pipeline_mode(connection))
        throw UsageError("the connection is in pipeline mode", "55000");
    // PQexecParams would discard the results of the statement that is running.
    if (PQtransactionStatus(connection) == PQTRANS_ACTIVE)
        throw UsageError("another statement is running on the connection", "55000");
}

bool
failed(const PGresult *result)
{
    const ExecStatusType status = PQresultStatus(result);
    return status == PGRES_FATAL_ERROR || status == PGRES_BAD_RESPONSE;
}

Result
checked(PGconn *connection, Result result)
{
    const PGresult *raw = result.get();
    const ExecStatusType status = PQresultStatus(raw);
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK)
        return result;
    std::string sqlstate = error_field(connection, raw, PG_DIAG_SQLSTATE);
    std::string message = error_field(connection, raw, PG_DIAG_MESSAGE_PRIMARY);
    if (message.empty())
        message = connection_message(connection);
    if (message.empty()) // a result, but none that our statements have
        message = std::string("the server answered with ") + PQresStatus(status);
    if (sqlstate.empty())
        sqlstate = PQstatus(connection) == CONNECTION_BAD ? "08006" : "58000";
    throw DatabaseError(message, sqlstate, error_field(connection, raw, PG_DIAG_MESSAGE_HINT));
}

Result
exec(PGconn *connection, const char *sql, const std::vector<Param> &params)
{
    require_usable(connection);
    const ParamArrays arrays(params);
    return checked(connection,
                   Result(PQexecParams(connection, sql, arrays.count, nullptr, arrays.values.data(),
                                       arrays.lengths.data(), arrays.formats.data(), 0)));
}

} // namespace outbox::v0::detail
