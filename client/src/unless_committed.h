// What is to be said when a transaction does not commit, or does with a key that has no answer.
#pragma once

#include <cstdint>
#include <string>

#include <libpq-fe.h>

#include "outbox/export.h"

namespace outbox::v0::detail
{

// Writes the line to stderr when the transaction that is open now is rolled back, to a savepoint at
// least, or is prepared, or ends with its connection or otherwise without a word of its commit. The
// library that this code is in is never unloaded from then on. False: there is no memory for it.
bool tell_unless_committed(PGconn *connection, std::string line) noexcept;

// Follows the transaction that is open now, in which a key is about to be begun, by the statements
// that libpq shows from now on; until forget(), or tell_if_unanswered(). The number is never 0. The
// same holds for the library. Throws std::bad_alloc.
std::uint64_t follow(PGconn *connection);
// The key was completed, or released, and that has not been undone.
void note_answer(PGconn *connection, std::uint64_t number, bool released) noexcept;
// The key that this line is about was free: what was begun with it before is undone or released.
void note_free(PGconn *connection, const std::string &line) noexcept;
// All savepoints are released that the requests that are followed may have set.
void note_no_savepoint(PGconn *connection) noexcept;
// Whoever follows it is gone, and so is what it was followed for, but for tell_if_unanswered().
void forget(PGconn *connection, std::uint64_t number) noexcept;
// Writes a line to stderr when the transaction has been committed, or prepared, or is so later,
// and the key is in it without an answer: because it got none, or because a rollback to a savepoint
// undid that. Which savepoint a rollback was to is not to be seen: after one that may also have
// undone the whole request, or nothing of it, the line is `perhaps`. There is none if no savepoint
// of the request can be left that could matter, nor if a BEGIN follows such a rollback at once, as
// it does where the rollback was that of the transaction.
void tell_if_unanswered(PGconn *connection, std::uint64_t number, std::string line,
                        std::string perhaps);

// While one lives, what is rolled back is our own: no line is written, and it is not followed.
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
