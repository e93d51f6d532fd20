// One connection to PostgreSQL, by libpq.
#pragma once

#include "connecting.h"
#include "interrupts.h"
#include "rows.h"

#include <libpq-fe.h>

#include <string>
#include <vector>

namespace outbox::ctl
{

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
    void open(const Connector::Settings &settings);
    Rows within_transaction(const char *begin, const std::string &sql,
                            const std::vector<Text> &parameters, Clock::time_point deadline);
    void send(const char *statements, Clock::time_point deadline);
    std::string connection_error() const;
    Rows checked(PGresult *result);
    PGresult *last_result(Clock::time_point deadline);

    std::string conninfo_;
    std::string password_;
    Connection connection_;
    std::string refusal_; // why it was not made; empty when it was
    std::string user_;
    bool without_utf8_ = false; // texts come in the bytes of the database
};

} // namespace outbox::ctl
