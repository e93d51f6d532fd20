// One connection to PostgreSQL, by libpq, and what it answers.
#pragma once

#include "connecting.h"
#include "interrupts.h"
#include "json.h"

#include <libpq-fe.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

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

// Errors are Error with libpq's or the server's texts; ConnectionError when the connection is not
// there.
class Database
{
public:
    // `conninfo` as psql takes it after -d: empty, a database's name, a connection string or a URI.
    // Each address of each host has 10 seconds unless connect_timeout says otherwise; asks for a
    // password on a terminal when the server wants one. No error holds a password.
    explicit Database(const std::string &conninfo);

    // One statement, in a transaction of its own. Gives up after a minute: then the connection is
    // of no more use.
    Rows query(const std::string &sql, const std::vector<Text> &parameters = {});

    // The same for what changes something: `effect`, "the event is emitted", is in doubt when
    // nobody says how the transaction ended.
    Rows change(const std::string &effect, const std::string &sql,
                const std::vector<Text> &parameters);

    // Opens the connection again, with the password that was typed.
    void reconnect();

    std::string name() const;
    // Whose rights count: another role than that of the login when a setting says so.
    const std::string &user() const { return user_; }
    std::string quoted_user(); // as an identifier, for statements
    std::string server_version() const;
    // "host port 5432" or "socket /run/postgresql port 5432"
    std::string place() const;

private:
    void connect();
    void open(const Settings &settings);
    Rows within_transaction(const char *begin, const std::string &sql,
                            const std::vector<Text> &parameters, Clock::time_point deadline);
    void send(const char *statements, Clock::time_point deadline);
    std::string connection_error() const;
    Rows checked(PGresult *result);
    PGresult *last_result(Clock::time_point deadline);

    std::string conninfo_;
    std::string password_;
    Connection connection_;
    std::string user_;
    bool without_utf8_ = false; // texts come in the bytes of the database
};

} // namespace outbox::ctl
