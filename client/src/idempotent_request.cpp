#include "outbox/idempotent_request.h"

#include "outbox/error.h"
#include "sql.h"
#include "text.h"

#include <cstdio>
#include <exception>

namespace outbox::v0
{

namespace
{

using detail::Param;
using Outcome = IdempotentRequest::Outcome;

constexpr const char *kBegin =
    "select outcome, owner, status, response, content_type, headers,"
    " pg_catalog.ceil(extract(epoch from retry_after) operator(pg_catalog.*) 1000)::bigint,"
    " pg_catalog.pg_current_xact_id_if_assigned()::text"
    " from outbox.idempotency_begin($1, $2, $3, $4, $5, $6)";
constexpr const char *kHeaders = "select key, value from pg_catalog.jsonb_each_text($1)";
constexpr const char *kComplete = "select outbox.idempotency_complete($1, $2, $3, $4, $5, $6, $7)";
constexpr const char *kRelease = "select outbox.idempotency_release($1, $2, $3)";

constexpr const char *kTransaction = "select pg_catalog.pg_current_xact_id_if_assigned()::text";
constexpr const char *kStatus = "select pg_catalog.pg_xact_status($1::xid8)";

// PostgreSQL's dates end before that; its intervals, long before what the type can hold.
constexpr auto kLongest = std::chrono::hours(24) * 365250;

std::string
interval(const char *name, std::chrono::milliseconds time)
{
    if (time > kLongest || time < -kLongest)
        throw UsageError(std::string(name) + " is beyond a thousand years");
    return std::to_string(time.count()) + " milliseconds";
}

Outcome
to_outcome(const std::string &text)
{
    if (text == "started")
        return Outcome::started;
    if (text == "taken_over")
        return Outcome::taken_over;
    if (text == "replay")
        return Outcome::replay;
    if (text == "in_progress")
        return Outcome::in_progress;
    if (text == "mismatch")
        return Outcome::mismatch;
    throw DatabaseError("outbox.idempotency_begin() answered \"" + text + "\"", "XX000");
}

void
require_transaction(PGconn *connection, RequestMode mode)
{
    detail::require_usable(connection);
    const bool open = PQtransactionStatus(connection) != PQTRANS_IDLE;
    if (mode == RequestMode::single_tx && !open)
        throw UsageError("an idempotent request of mode single_tx needs an open transaction",
                         "25P01");
    if (mode == RequestMode::two_phase && open)
        throw UsageError("an idempotent request of mode two_phase begins outside of a transaction",
                         "25001");
}

Response
read_response(PGconn *connection, const detail::Result &row)
{
    Response response;
    response.status = row.is_null(0, 2) ? 0 : std::stoi(row.text(0, 2));
    response.body = row.bytes(0, 3);
    response.content_type = row.text(0, 4);
    if (!row.is_null(0, 5))
    {
        const detail::Result headers = detail::exec(connection, kHeaders, {row.text(0, 5)});
        for (int i = 0; i < headers.rows(); ++i)
            response.headers[headers.text(i, 0)] = headers.text(i, 1);
    }
    return response;
}

} // namespace

std::string
request_hash(PGconn *connection, std::string_view method, std::string_view path,
             std::string_view body)
{
    detail::require_text("the method", method);
    detail::require_text("the path", path);
    const detail::Result result =
        detail::exec(connection, "select outbox.request_hash($1, $2, $3)",
                     {std::string(method), std::string(path), Param::bytes(std::string(body))});
    return result.bytes(0, 0);
}

IdempotentRequest::IdempotentRequest(PGconn *connection, std::string scope, std::string key,
                                     std::string_view request_hash, const RequestOptions &options)
    : connection_(connection), scope_(std::move(scope)), key_(std::move(key)), mode_(options.mode)
{
    detail::require_text("the scope", scope_);
    detail::require_text("the key", key_);
    require_transaction(connection_, mode_);
    const detail::Result row = detail::exec(
        connection_, kBegin,
        {scope_, key_, Param::bytes(std::string(request_hash)), interval("ttl", options.ttl),
         mode_ == RequestMode::single_tx ? "single_tx" : "two_phase",
         interval("lease", options.lease)});
    outcome_ = to_outcome(row.text(0, 0));
    owner_ = row.text(0, 1) + " " + row.text(0, 7);
    held_ = outcome_ == Outcome::started || outcome_ == Outcome::taken_over;
    if (!held_)
        owner_.clear();
    if (outcome_ == Outcome::replay)
        response_ = read_response(connection_, row);
    if (!row.is_null(0, 6))
        retry_after_ = std::chrono::milliseconds(std::stoll(row.text(0, 6)));
}

std::string
IdempotentRequest::owner() const
{
    return owner_.substr(0, owner_.find(' '));
}

bool
IdempotentRequest::in_own_transaction() const
{
    return PQtransactionStatus(connection_) == PQTRANS_INTRANS &&
           detail::exec(connection_, kTransaction).text(0, 0) ==
               owner_.substr(owner_.find(' ') + 1);
}

// There is nobody else to tell.
void
IdempotentRequest::warn(const std::string &what) const noexcept
{
    (void) std::fprintf(stderr, "outbox: idempotency key \"%s\" of scope \"%s\" %s\n", key_.c_str(),
                        scope_.c_str(), what.c_str());
}

// In a transaction that is the caller's, an error may not be left behind.
void
IdempotentRequest::release_within() const
{
    (void) detail::exec(connection_, "savepoint outbox_release");
    try
    {
        (void) detail::exec(connection_, kRelease, {scope_, key_, owner()});
    }
    catch (const DatabaseError &)
    {
        (void) detail::exec(connection_, "rollback to savepoint outbox_release");
        (void) detail::exec(connection_, "release savepoint outbox_release");
        throw;
    }
    (void) detail::exec(connection_, "release savepoint outbox_release");
}

// The transaction of single_tx takes the key along, wherever it goes. One that has failed can only
// be rolled back; another one is none of ours.
void
IdempotentRequest::leave_single() const
{
    const PGTransactionStatusType state = PQtransactionStatus(connection_);
    if (in_own_transaction())
        release_within();
    else if ((state == PQTRANS_IDLE || state == PQTRANS_INTRANS) &&
             detail::exec(connection_, kStatus, {owner_.substr(owner_.find(' ') + 1)}).text(0, 0) ==
                 "committed")
        warn("was committed without an answer: those who come with it get a replay of nothing");
}

void
IdempotentRequest::leave_two_phase() const
{
    switch (PQtransactionStatus(connection_))
    {
    case PQTRANS_IDLE:
        (void) detail::exec(connection_, kRelease, {scope_, key_, owner()});
        break;
    case PQTRANS_INTRANS:
        release_within();
        if (std::uncaught_exceptions() > 0)
            warn("is released in a transaction that is open while an exception passes: if it is "
                 "rolled back, the key stays leased. Let the request outlive the transaction");
        break;
    default:
        warn("cannot be released, as its connection is lost, busy or in a transaction that has "
             "failed, and stays leased. Let the request outlive the transaction");
    }
}

// The answer shares the fate of the transaction in which it was given. Of one that is open still
// only the caller can know what becomes of it.
void
IdempotentRequest::leave_completed() const
{
    const PGTransactionStatusType state = PQtransactionStatus(connection_);
    if (state == PQTRANS_INERROR)
        warn("was completed in a transaction that has failed, and stays leased. Let the request "
             "outlive the transaction");
    if ((state != PQTRANS_IDLE && state != PQTRANS_INTRANS) || in_own_transaction())
        return;
    if (detail::exec(connection_, kStatus, {owner_.substr(owner_.find(' ') + 1)}).text(0, 0) ==
        "aborted")
        leave_two_phase();
}

IdempotentRequest::~IdempotentRequest()
{
    const bool in_doubt = mode_ == RequestMode::two_phase && !held_ &&
                          owner_.find(' ') != std::string::npos; // see complete()
    if (!held_ && !in_doubt)
        return;
    try
    {
        if (!held_)
            leave_completed();
        else if (mode_ == RequestMode::single_tx)
            leave_single();
        else
            leave_two_phase();
    }
    catch (const DatabaseError &error)
    {
        // 55000: somebody else has the key, or a rollback to a savepoint took it back.
        if (error.code() != "55000")
            warn(std::string("is not released: ") + error.what());
    }
    catch (const std::exception &error)
    {
        // The caller's own exception, if there is one, matters more.
        warn(std::string("is not released: ") + error.what());
    }
}

void
IdempotentRequest::require_held() const
{
    if (!held_)
        throw UsageError("the key of this request is not held", "55000");
}

void
IdempotentRequest::complete(const Response &response)
{
    require_held();
    detail::require_text("the content type", response.content_type);
    for (const auto &[name, value] : response.headers)
    {
        detail::require_text("a header's name", name);
        detail::require_text("a header", value);
    }
    (void) detail::exec(
        connection_, kComplete,
        {scope_, key_, owner(), std::to_string(response.status), Param::bytes(response.body),
         response.content_type.empty() ? Param(std::nullopt) : Param(response.content_type),
         response.headers.empty()
             ? Param(std::nullopt)
             : Param(detail::json_object(response.headers, PQclientEncoding(connection_)))});
    held_ = false;
    // Where the answer is, if it is not there for sure yet.
    if (mode_ == RequestMode::two_phase && PQtransactionStatus(connection_) == PQTRANS_INTRANS)
        owner_ = owner() + " " + detail::exec(connection_, kTransaction).text(0, 0);
    else if (mode_ == RequestMode::two_phase)
        owner_ = owner();
}

void
IdempotentRequest::release()
{
    require_held();
    detail::require_usable(connection_);
    if (mode_ == RequestMode::single_tx && !in_own_transaction())
        throw UsageError(
            "the transaction that began this request has ended: its work is committed, "
            "or it is gone with the key",
            "25000");
    (void) detail::exec(connection_, kRelease, {scope_, key_, owner()});
    held_ = false;
    owner_ = owner();
}

} // namespace outbox::v0
