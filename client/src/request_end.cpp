// What becomes of the key when the object that asked for it is destroyed.
#include "outbox/error.h"
#include "outbox/idempotent_request.h"
#include "sql.h"
#include "unless_committed.h"

#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>

namespace outbox::v0
{

namespace
{

constexpr const char *kStatus = "select pg_catalog.pg_xact_status($1::xid8)";
constexpr const char *kCurrent = "select pg_catalog.pg_current_xact_id_if_assigned()::text";

// A destructor waits for no other session for longer.
constexpr const char *kLockLimit = "5s";
constexpr const char *kApart =
    "begin isolation level read committed read write; set local lock_timeout = '5s'";

constexpr const char *kRelease = "select outbox.idempotency_release($1, $2, $3)";

constexpr const char *kLeased =
    "outbox: idempotency key \"%s\" of scope \"%s\" %s stays leased until "
    "%s. Let the request outlive the transaction\n";

constexpr const char *kUnanswered =
    "was committed without an answer: those who come with it get a replay of nothing";

constexpr const char *kPerhapsUnanswered =
    "may be without an answer in a transaction that was committed, as there was a rollback to a "
    "savepoint in it: then those who come with it get a replay of nothing";

std::string
literal(PGconn *connection, const std::string &text)
{
    const std::unique_ptr<char, decltype(&PQfreemem)> escaped(
        PQescapeLiteral(connection, text.data(), text.size()), &PQfreemem);
    if (!escaped)
        throw DatabaseError(detail::connection_message(connection), "22021");
    return escaped.get();
}

// Several statements, which have no answers.
void
run(PGconn *connection, const char *sql)
{
    detail::require_usable(connection);
    (void) detail::checked(connection, detail::Result(PQexec(connection, sql)));
}

} // namespace

// Whether the connection is in the transaction in which the key was begun, completed or released.
bool
IdempotentRequest::in_transaction() const
{
    return PQtransactionStatus(connection_) == PQTRANS_INTRANS &&
           detail::exec(connection_, kCurrent).text(0, 0) == part(kTransaction);
}

// There is nobody else to tell.
void
IdempotentRequest::warn(const char *what, const char *detail) const noexcept
{
    (void) std::fprintf(stderr, "outbox: idempotency key \"%s\" of scope \"%s\" %s%s\n",
                        key_.c_str(), scope_.c_str(), what, detail);
}

void
IdempotentRequest::warn_of_lease(const char *why) const noexcept
{
    // The last part, so nothing has to be copied.
    const char *until = std::strrchr(owner_.c_str(), kSeparator) + 1;
    (void) std::fprintf(stderr, kLeased, key_.c_str(), scope_.c_str(), why, until);
}

// The same when it turns out that it is so.
void
IdempotentRequest::warn_unless_committed(const char *why) const
{
    const std::string until = part(kLease);
    const auto print = [&](char *to, std::size_t room)
    { return std::snprintf(to, room, kLeased, key_.c_str(), scope_.c_str(), why, until.c_str()); };
    const int size = print(nullptr, 0);
    std::string line(size > 0 ? static_cast<std::size_t>(size) + 1 : 1, '\0');
    (void) print(line.data(), line.size());
    if (!detail::tell_unless_committed(connection_, std::move(line)))
        warn_of_lease(why);
}

// What somebody with the same request would be told about the key: the answer of
// idempotency_begin(), which is rolled back, so that nothing is begun. "unanswered" is a replay of
// nothing. The row itself is not the role's to read.
std::string
IdempotentRequest::ask_state() const
{
    const bool within = PQtransactionStatus(connection_) == PQTRANS_INTRANS;
    const std::string undo =
        within ? "rollback to savepoint outbox_ask; release savepoint outbox_ask" : "rollback";
    const std::string sql = std::string(within ? "savepoint outbox_ask" : kApart) +
                            "; select outcome, status is null from outbox.idempotency_begin(" +
                            literal(connection_, scope_) + ", " + literal(connection_, key_) +
                            ", pg_catalog.decode('" + part(kHash) + "', 'hex')); " + undo;
    std::string state;
    detail::Result failure;
    const detail::OwnRollback own(connection_);
    detail::require_usable(connection_);
    if (PQsendQuery(connection_, sql.c_str()) == 0)
        throw DatabaseError(detail::connection_message(connection_), "08006");
    while (PGresult *raw = PQgetResult(connection_))
    {
        detail::Result result(raw);
        if (PQresultStatus(raw) == PGRES_TUPLES_OK && result.rows() == 1)
            state = result.text(0, 0) == "replay" && result.text(0, 1) == "t" ? "unanswered"
                                                                              : result.text(0, 0);
        else if (PQresultStatus(raw) != PGRES_COMMAND_OK)
            failure = std::move(result);
        if (PQstatus(connection_) == CONNECTION_BAD)
            break;
    }
    if (failure.get() == nullptr && state.empty())
        throw DatabaseError("the server did not say what state the key is in", "08006");
    if (failure.get() == nullptr)
        return state;
    if (PQtransactionStatus(connection_) == PQTRANS_INERROR)
        PQclear(PQexec(connection_, undo.c_str()));
    (void) detail::checked(connection_, std::move(failure));
    return state;
}

// In a transaction that is the caller's, an error may not be left behind, nor a setting.
void
IdempotentRequest::release_within() const
{
    const detail::OwnRollback own(connection_);
    const std::string limit =
        detail::exec(connection_, "select pg_catalog.current_setting('lock_timeout')").text(0, 0);
    const char *set = "select pg_catalog.set_config('lock_timeout', $1, true)";
    (void) detail::exec(connection_, "savepoint outbox_release");
    try
    {
        (void) detail::exec(connection_, set, {kLockLimit});
        (void) detail::exec(connection_, kRelease, {scope_, key_, part(kOwner)});
        (void) detail::exec(connection_, set, {limit});
    }
    catch (const DatabaseError &)
    {
        (void) detail::exec(connection_, "rollback to savepoint outbox_release");
        (void) detail::exec(connection_, "release savepoint outbox_release");
        throw;
    }
    (void) detail::exec(connection_, "release savepoint outbox_release");
}

void
IdempotentRequest::release_apart() const
{
    try
    {
        run(connection_, kApart);
        (void) detail::exec(connection_, kRelease, {scope_, key_, part(kOwner)});
        (void) detail::exec(connection_, "commit");
    }
    catch (const DatabaseError &)
    {
        if (PQtransactionStatus(connection_) != PQTRANS_IDLE)
            PQclear(PQexec(connection_, "rollback"));
        throw;
    }
}

// Of the key.
std::string
IdempotentRequest::line_that(const char *what) const
{
    return "outbox: idempotency key \"" + key_ + "\" of scope \"" + scope_ + "\" " + what + "\n";
}

// The key was free when this request began.
void
IdempotentRequest::note_free() const
{
    detail::note_free(connection_, line_that(kUnanswered));
}

// For the case that the transaction is committed when there is nobody left to ask the server.
void
IdempotentRequest::tell_if_unanswered() const
{
    detail::tell_if_unanswered(connection_, followed(), line_that(kUnanswered),
                               line_that(kPerhapsUnanswered));
}

// The transaction of single_tx takes the key along, wherever it goes. Of one that has failed, or is
// busy, only its end tells where; another one is none of ours.
void
IdempotentRequest::leave_single() const
{
    const PGTransactionStatusType state = PQtransactionStatus(connection_);
    const bool can_ask = (state == PQTRANS_IDLE || state == PQTRANS_INTRANS) &&
                         !detail::in_pipeline_mode(connection_);
    if (!can_ask)
    {
        tell_if_unanswered();
        return;
    }
    const bool within = in_transaction();
    const std::string status =
        within ? "" : detail::exec(connection_, kStatus, {part(kTransaction)}).text(0, 0);
    if (status == "in progress") // it is prepared, and what it was then was seen
        tell_if_unanswered();
    else if (!held_)
    {
        const std::string now = ask_state();
        if (now == "unanswered" && !within)
            warn(kUnanswered);
        else if (now == "in_progress" && within)
            warn("has no answer any more, as complete() or release() was undone by a rollback to "
                 "a savepoint: if the transaction is committed, those who come with it get a "
                 "replay of nothing");
        else if (within)
        {
            detail::note_answer(connection_, followed(), now != "replay");
            tell_if_unanswered();
        }
    }
    else if (within)
    {
        release_within();
        detail::note_answer(connection_, followed(), true);
        tell_if_unanswered();
    }
    else if (status == "committed")
        warn(kUnanswered);
}

// Outside of a transaction the key is in the end what it should be. Within one nobody knows what
// becomes of it, and of all that is done in it here, before it ends.
void
IdempotentRequest::leave_two_phase() const
{
    const PGTransactionStatusType state = PQtransactionStatus(connection_);
    if (state != PQTRANS_IDLE && state != PQTRANS_INTRANS)
    {
        warn_of_lease(held_ ? "cannot be released, as its connection is lost, busy or in a "
                              "transaction that has failed, and"
                      : state == PQTRANS_INERROR
                          ? "was completed or released in a transaction that has failed, and"
                          : "was completed or released in a transaction whose end nobody knows, as "
                            "the connection is lost or busy: unless it was committed, the key");
        return;
    }
    const bool open = state == PQTRANS_INTRANS;
    const std::string now = held_ ? "in_progress" : ask_state();
    const bool leased = now == "in_progress" || now == "taken_over";
    if (leased && open)
        release_within();
    else if (leased)
        release_apart();
    if (open && (leased || in_transaction()))
        warn_unless_committed("was completed or released in a transaction that was rolled back, to "
                              "a savepoint at least, or whose end nobody knows: unless that part "
                              "of it was committed, the key");
}

IdempotentRequest::~IdempotentRequest()
{
    if (!held_ && !in_doubt_)
        return;
    try
    {
        if (mode_ == RequestMode::single_tx)
            leave_single();
        else
            leave_two_phase();
        detail::forget(connection_, followed());
    }
    catch (const std::exception &error)
    {
        detail::forget(connection_, followed());
        // 55000: somebody else has the key, or a rollback to a savepoint took it back.
        const auto *refusal = dynamic_cast<const Error *>(&error);
        if (refusal != nullptr && refusal->code() == "55000" &&
            dynamic_cast<const DatabaseError *>(refusal) != nullptr)
            return;
        // The caller's own exception, if there is one, matters more.
        warn("is not released: ", error.what());
        if (mode_ == RequestMode::two_phase)
            warn_of_lease("was not completed, as far as is known, and");
    }
}

} // namespace outbox::v0
