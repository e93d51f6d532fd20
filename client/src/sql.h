// One statement on a connection of libpq, with its errors as exceptions.
#pragma once

#include "outbox/export.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <libpq-fe.h>

namespace outbox::v0::detail
{

class Result
{
public:
    explicit Result(PGresult *result = nullptr) : result_(result, &PQclear) {}

    int rows() const { return PQntuples(result_.get()); }
    bool is_null(int row, int column) const { return PQgetisnull(result_.get(), row, column) != 0; }
    std::string text(int row, int column) const { return PQgetvalue(result_.get(), row, column); }
    // A column of bytea, which text format shows in hex.
    std::string bytes(int row, int column) const;
    PGresult *get() const { return result_.get(); }

private:
    std::unique_ptr<PGresult, decltype(&PQclear)> result_;
};

// A parameter: SQL's null, or a text, or bytes for a parameter of type bytea.
struct Param
{
    Param(std::nullopt_t) : null(true) {} // NOLINT: parameters are written as what they are
    Param(std::string text) : value(std::move(text)) {} // NOLINT
    Param(const char *text) : value(text) {}            // NOLINT
    Param(const std::optional<std::string> &text)
        : null(!text), value(text.value_or("")) {} // NOLINT

    static Param bytes(std::string data)
    {
        Param param(std::move(data));
        param.binary = true;
        return param;
    }

    bool null = false;
    bool binary = false;
    std::string value;
};

// The parameters in the form that libpq takes; `params` must stay where they are.
struct ParamArrays
{
    explicit ParamArrays(const std::vector<Param> &params);

    int count;
    std::vector<const char *> values;
    std::vector<int> lengths;
    std::vector<int> formats;
};

// Runs one statement and returns its result. Throws DatabaseError, or UsageError 55000 if the
// connection is null, busy or in pipeline mode. Parameters must hold no zero bytes unless binary.
Result exec(PGconn *connection, const char *sql, const std::vector<Param> &params = {});

// Whether the result is an error.
bool failed(const PGresult *result);

// The result if it is a success, otherwise an exception.
Result checked(PGconn *connection, Result result);

// Whether several statements may be under way at once; libpq before 14 knows nothing of that.
bool in_pipeline_mode(const PGconn *connection);

// Throws UsageError 55000 if a statement cannot be run on this connection now.
void require_usable(PGconn *connection);

// The encoding of what the server sent, also if the connection is lost since; of none, UTF-8.
int encoding_of(const PGconn *connection);

// What libpq says of a connection, in one line.
std::string connection_message(PGconn *connection);

} // namespace outbox::v0::detail
