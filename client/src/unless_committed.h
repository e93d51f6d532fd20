// What is to be said in the case that a transaction does not commit.
#pragma once

#include <string>

#include <libpq-fe.h>

#include "outbox/export.h"

namespace outbox::v0::detail
{

// Writes the line to stderr when the transaction that is open now is rolled back, to a savepoint at
// least, or is prepared, or ends with its connection or otherwise without a word of its commit. The
// library that this code is in is never unloaded from then on. False: there is no memory for it.
bool tell_unless_committed(PGconn *connection, std::string line) noexcept;

// While one lives, what is rolled back is our own: no line is written.
class OwnRollback
{
public:
    explicit OwnRollback(PGconn *connection);
    ~OwnRollback();
    OwnRollback(const OwnRollback &) = delete;
    OwnRollback &operator=(const OwnRollback &) = delete;

private:
    PGconn *connection_;
};

} // namespace outbox::v0::detail
