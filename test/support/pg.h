#pragma once

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <libpq-fe.h>

#include "pg_cluster.h"

namespace outbox::test
{

// What the server (or the lost connection) said. sqlstate() is empty when the connection broke.
class SqlError : public std::runtime_error
{
public:
    SqlError(const std::string &message, std::string sqlstate, std::string hint)
        : std::runtime_error(message), sqlstate_(std::move(sqlstate)), hint_(std::move(hint))
    {
    }
    const std::string &sqlstate() const { return sqlstate_; }
    const std::string &hint() const { return hint_; }

private:
    std::string sqlstate_;
    std::string hint_;
};

using Param = std::optional<std::string>;

inline Param
to_param(std::nullopt_t)
{
    return std::nullopt;
}
inline Param
to_param(const Param &value)
{
    return value;
}
inline Param
to_param(const std::string &value)
{
    return value;
}
inline Param
to_param(const char *value)
{
    return std::string(value);
}
template <class Number>
Param
to_param(Number value)
{
    return std::to_string(value);
}

class Result
{
public:
    explicit Result(PGresult *result) : result_(result, &PQclear) {}

    int rows() const { return PQntuples(result_.get()); }
    int columns() const { return PQnfields(result_.get()); }
    // The text of one field; nothing for NULL. Throws when there is no such field.
    Param field(int row, int column = 0) const;
    std::string text(int row, int column = 0) const { return field(row, column).value(); }

    explicit operator bool() const { return result_ != nullptr; }
    ExecStatusType status() const { return PQresultStatus(result_.get()); }
    std::string sqlstate() const
    {
        const char *state = PQresultErrorField(result_.get(), PG_DIAG_SQLSTATE);
        return state != nullptr ? state : "";
    }

private:
    std::unique_ptr<PGresult, decltype(&PQclear)> result_;
};

// One connection. Every statement ends within a minute unless a test sets its own
// statement_timeout.
class Db
{
public:
    Db(const PgCluster &cluster, const std::string &database, const std::string &user = "");

    // Runs SQL and throws SqlError if it fails. Without parameters it may be several statements, of
    // which the last one's result is given back.
    template <class... Params> Result exec(const std::string &sql, const Params &...params)
    {
        return exec_params(sql, {to_param(params)...});
    }

    // The first field of the first row, which must be there and not NULL.
    template <class... Params> std::string value(const std::string &sql, const Params &...params)
    {
        return exec(sql, params...).text(0);
    }

    // The first column of all rows.
    template <class... Params>
    std::vector<std::string> column(const std::string &sql, const Params &...params)
    {
        const Result result = exec(sql, params...);
        std::vector<std::string> values;
        values.reserve(static_cast<size_t>(result.rows()));
        for (int row = 0; row < result.rows(); ++row)
            values.push_back(result.text(row));
        return values;
    }

    // Sends `lines` by COPY … FROM STDIN; `sql` is the COPY command.
    void copy_in(const std::string &sql, const std::string &lines);

    // Sends them all in one pipeline, so in one implicit transaction. Returns the SQLSTATE of each
    // that failed; those behind the first one are not run. Throws when the connection breaks.
    std::vector<std::string> pipeline(const std::vector<std::string> &statements);

    int backend_pid() const { return PQbackendPID(connection_.get()); }

private:
    Result exec_params(const std::string &sql, const std::vector<Param> &params);
    Result checked(PGresult *result, const std::string &sql);

    std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
};

} // namespace outbox::test
