// What PostgreSQL answers.
#pragma once

#include "json.h"

#include <libpq-fe.h>

#include <memory>
#include <optional>
#include <string>

namespace outbox::ctl
{

using Text = std::optional<std::string>;

// The rows of an answer. Times are ISO 8601 in UTC: 2026-01-31T09:05:00.000123Z; years before
// Christ end with " BC", and infinity is a word.
class Rows
{
public:
    explicit Rows(PGresult *result) : result_(result, &PQclear) {}

    int count() const { return PQntuples(result_.get()); }
    bool empty() const { return count() == 0; }

    // A column by its name, nothing for NULL. Throws std::logic_error when there is no such column.
    // What a server sends may be anything; only raw() is as it came, for JSON, for the server, and
    // for what is made printable otherwise.
    Text text(int row, const char *column) const;
    std::string value(int row, const char *column, const char *if_null = "") const;
    Text raw(int row, const char *column) const;
    // As it came, but it is JSON: Error otherwise.
    Text json(int row, const char *column) const;
    std::optional<long long> number(int row, const char *column) const;
    std::optional<double> real(int row, const char *column) const; // for people, not for JSON
    bool flag(int row, const char *column) const;                  // false for NULL

    // A row as an object with the columns' names: numbers, booleans and json as such, the rest as
    // text. Error when what is sent as JSON is none.
    Json object(int row) const;

private:
    int index(const char *column) const;
    Json field(int row, int column) const;

    std::unique_ptr<PGresult, decltype(&PQclear)> result_;
};

} // namespace outbox::ctl
