// The consumer's own connection to PostgreSQL.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <libpq-fe.h>

#include "sql.h"
#include "stop_flag.h"

namespace outbox::v0::detail
{

// Connects when it is first needed and whenever the last connection is gone. Waits of its own
// statements end with Stopped when `stop` is raised; the connection is gone then, and with it
// whatever its transaction held.
class Database
{
public:
    // Throws UsageError if `conninfo` is not understood.
    Database(const std::string &conninfo, const std::string &application, const StopFlag &stop);

    // The connection, made if there is none. Throws DatabaseError 08001.
    PGconn *connection();

    // Runs a statement on the connection, which must be there.
    Result exec(const char *sql, const std::vector<Param> &params = {});

    void begin();
    // Waits for the outcome even when `stop` is raised. Throws DatabaseError; if that tells of a
    // lost connection the transaction may have been committed all the same.
    void commit();
    // Ends the transaction, at worst with its connection.
    void rollback() noexcept;
    // Closes the connection.
    void drop() noexcept;

    bool lost() const noexcept;
    // Of the transaction on the connection.
    PGTransactionStatusType state() const noexcept;

private:
    void connect();
    void wait_for_socket(short events, int timeout_ms);
    Result next_result();

    std::vector<std::string> keywords_;
    std::vector<std::string> values_;
    const StopFlag &stop_;
    std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
};

} // namespace outbox::v0::detail
