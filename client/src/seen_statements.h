// What libpq has shown of the statements on a connection, without a question to the server.
#pragma once

#include <string>

#include <libpq-fe.h>

namespace outbox::v0::detail
{

struct SeenStatements
{
    // A result that somebody got from the connection.
    void note(const PGresult *result);

    bool boundary = false;  // a transaction may have begun or ended
    bool savepoint = false; // one was set, and may be left
    // The SQLSTATE of the last error; empty if there was none.
    std::string last_error;
    // The SQLSTATE of the error that put an end to the work: nothing but errors and rollbacks
    // have followed it. Empty if there was none.
    std::string cause;

private:
    bool failed_ = false; // the transaction, since `cause`
};

} // namespace outbox::v0::detail
