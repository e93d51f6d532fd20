#include "pg.h"

namespace outbox::test
{

namespace
{

std::string
error_field(const PGresult *result, int code)
{
    const char *text = PQresultErrorField(result, code);
    return text != nullptr ? text : "";
}

} // namespace

Param
Result::field(int row, int column) const
{
    if (row >= rows() || column >= columns())
        throw std::out_of_range("the result has no row " + std::to_string(row) + ", column " +
                                std::to_string(column));
    if (PQgetisnull(result_.get(), row, column) != 0)
        return std::nullopt;
    return std::string(PQgetvalue(result_.get(), row, column),
                       static_cast<size_t>(PQgetlength(result_.get(), row, column)));
}

Db::Db(const PgCluster &cluster, const std::string &database, const std::string &user)
    : connection_(nullptr, &PQfinish)
{
    std::string conninfo = cluster.conninfo(database) + " options='-c statement_timeout=60s'";
    if (!user.empty())
        conninfo += " user=" + user; // the last one counts
    connection_.reset(PQconnectdb(conninfo.c_str()));
    if (PQstatus(connection_.get()) != CONNECTION_OK)
        throw SqlError(PQerrorMessage(connection_.get()), "", "");
    PQsetNoticeProcessor(
        connection_.get(), [](void *, const char *) {}, nullptr);
}

std::vector<std::string>
Db::pipeline([[maybe_unused]] const std::vector<std::string> &statements)
{
    std::vector<std::string> states;
#ifdef LIBPQ_HAS_PIPELINING
    PGconn *connection = connection_.get();
    bool sent = PQenterPipelineMode(connection) == 1;
    for (const std::string &statement : statements)
        sent = sent && PQsendQueryParams(connection, statement.c_str(), 0, nullptr, nullptr,
                                         nullptr, nullptr, 0) == 1;
    sent = sent && PQpipelineSync(connection) == 1;
    for (bool synced = false; sent && !synced && PQstatus(connection) == CONNECTION_OK;)
    {
        const Result result(PQgetResult(connection));
        if (!result) // the end of one statement's results
            continue;
        synced = result.status() == PGRES_PIPELINE_SYNC;
        if (result.status() == PGRES_FATAL_ERROR)
            states.push_back(result.sqlstate());
    }
    sent = sent && PQexitPipelineMode(connection) == 1;
    if (!sent || PQstatus(connection) != CONNECTION_OK)
        throw SqlError(PQerrorMessage(connection), "", "");
#endif
    return states;
}

Result
Db::checked(PGresult *raw, const std::string &sql)
{
    Result result(raw);
    const ExecStatusType status = PQresultStatus(raw);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_COPY_IN ||
        status == PGRES_EMPTY_QUERY)
        return result;
    const std::string message = error_field(raw, PG_DIAG_MESSAGE_PRIMARY);
    throw SqlError((message.empty() ? PQerrorMessage(connection_.get()) : message) +
                       "\nin: " + sql.substr(0, 500),
                   error_field(raw, PG_DIAG_SQLSTATE), error_field(raw, PG_DIAG_MESSAGE_HINT));
}

Result
Db::exec_params(const std::string &sql, const std::vector<Param> &params)
{
    if (params.empty())
        return checked(PQexec(connection_.get(), sql.c_str()), sql);
    std::vector<const char *> values;
    values.reserve(params.size());
    for (const Param &param : params)
        values.push_back(param ? param->c_str() : nullptr);
    return checked(PQexecParams(connection_.get(), sql.c_str(), static_cast<int>(values.size()),
                                nullptr, values.data(), nullptr, nullptr, 0),
                   sql);
}

void
Db::copy_in(const std::string &sql, const std::string &lines)
{
    exec(sql);
    if (PQputCopyData(connection_.get(), lines.data(), static_cast<int>(lines.size())) != 1 ||
        PQputCopyEnd(connection_.get(), nullptr) != 1)
        throw SqlError(PQerrorMessage(connection_.get()), "", "");
    // The command's own result, then the end of results.
    checked(PQgetResult(connection_.get()), sql);
    while (PGresult *rest = PQgetResult(connection_.get()))
        PQclear(rest);
}

} // namespace outbox::test
