#include "outbox/idempotent_request.h"

#include "outbox/error.h"
#include "sql.h"
#include "text.h"

namespace outbox::v0
{

namespace
{

using detail::Param;
using Outcome = IdempotentRequest::Outcome;

constexpr const char *kBegin =
    "select outcome, owner, status, response, content_type, headers,"
    " pg_catalog.ceil(extract(epoch from retry_after) operator(pg_catalog.*) 1000)::bigint"
    " from outbox.idempotency_begin($1, $2, $3, $4, $5, $6)";
constexpr const char *kHeaders = "select key, value from pg_catalog.jsonb_each_text($1)";
constexpr const char *kComplete = "select outbox.idempotency_complete($1, $2, $3, $4, $5, $6, $7)";
constexpr const char *kRelease = "select outbox.idempotency_release($1, $2, $3)";

std::string
interval(std::chrono::milliseconds time)
{
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
        {scope_, key_, Param::bytes(std::string(request_hash)), interval(options.ttl),
         mode_ == RequestMode::single_tx ? "single_tx" : "two_phase", interval(options.lease)});
    outcome_ = to_outcome(row.text(0, 0));
    owner_ = row.text(0, 1);
    held_ = outcome_ == Outcome::started || outcome_ == Outcome::taken_over;
    if (outcome_ == Outcome::replay)
        response_ = read_response(connection_, row);
    if (!row.is_null(0, 6))
        retry_after_ = std::chrono::milliseconds(std::stoll(row.text(0, 6)));
}

IdempotentRequest::~IdempotentRequest()
{
    if (!held_)
        return;
    // A failed transaction takes the key of single_tx back by itself, and no statement runs in it.
    const PGTransactionStatusType state = PQtransactionStatus(connection_);
    if (state != PQTRANS_INTRANS && !(state == PQTRANS_IDLE && mode_ == RequestMode::two_phase))
        return;
    try
    {
        release();
    }
    catch (const std::exception &)
    {
        // The lease runs out, or somebody has taken it over; the caller's own exception matters.
        held_ = false;
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
        {scope_, key_, owner_, std::to_string(response.status), Param::bytes(response.body),
         response.content_type.empty() ? Param(std::nullopt) : Param(response.content_type),
         response.headers.empty() ? Param(std::nullopt)
                                  : Param(detail::json_object(response.headers))});
    held_ = false;
}

void
IdempotentRequest::release()
{
    require_held();
    (void) detail::exec(connection_, kRelease, {scope_, key_, owner_});
    held_ = false;
}

} // namespace outbox::v0
