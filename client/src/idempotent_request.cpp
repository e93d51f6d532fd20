#include "outbox/idempotent_request.h"

#include "outbox/error.h"
#include "sql.h"
#include "text.h"
#include "unless_committed.h"

#include <cstdlib>
#include <initializer_list>
#include <memory>

namespace outbox::v0
{

namespace
{

using detail::Param;
using Outcome = IdempotentRequest::Outcome;

constexpr const char *kBegin =
    "select outcome, owner, status, response, content_type, headers,"
    " pg_catalog.ceil(extract(epoch from retry_after) operator(pg_catalog.*) 1000)::bigint,"
    " pg_catalog.pg_current_xact_id_if_assigned()::text,"
    " (pg_catalog.clock_timestamp() operator(pg_catalog.+) $6)::text"
    " from outbox.idempotency_begin($1, $2, $3, $4, $5, $6)";
constexpr const char *kHeaders = "select key, value from pg_catalog.jsonb_each_text($1)";
// With the number of the transaction, which is known when the function has written.
constexpr const char *kComplete = "select pg_catalog.pg_current_xact_id_if_assigned()::text"
                                  " from outbox.idempotency_complete($1, $2, $3, $4, $5, $6, $7)";
constexpr const char *kRelease = "select pg_catalog.pg_current_xact_id_if_assigned()::text"
                                 " from outbox.idempotency_release($1, $2, $3)";

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
require_connection(PGconn *connection)
{
    detail::require_usable(connection);
    if (PQtransactionStatus(connection) != PQTRANS_UNKNOWN)
        return;
    const std::string why = detail::connection_message(connection);
    throw DatabaseError(why.empty() ? "there is no connection to the server" : why, "08006");
}

void
require_transaction(PGconn *connection, RequestMode mode)
{
    require_connection(connection);
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

std::string
joined(std::initializer_list<std::string> parts, char separator)
{
    std::string text;
    for (const std::string &part : parts)
        text += (text.empty() ? "" : std::string(1, separator)) + part;
    return text;
}

std::string
to_hex(std::string_view bytes)
{
    std::string text;
    detail::append_hex(text, bytes);
    return text;
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
    // Before the key is begun, as this may fail, and is taken back by whatever fails after it.
    std::uint64_t number = mode_ == RequestMode::single_tx ? detail::follow(connection_) : 0;
    const auto forget = [&](const std::uint64_t *one) { detail::forget(connection_, *one); };
    const std::unique_ptr<std::uint64_t, decltype(forget)> following(&number, forget);
    const detail::Result row = detail::exec(
        connection_, kBegin,
        {scope_, key_, Param::bytes(std::string(request_hash)), interval("ttl", options.ttl),
         mode_ == RequestMode::single_tx ? "single_tx" : "two_phase",
         interval("lease", options.lease)});
    outcome_ = to_outcome(row.text(0, 0));
    held_ = outcome_ == Outcome::started || outcome_ == Outcome::taken_over;
    if (held_)
        owner_ = joined({row.text(0, 1), to_hex(request_hash), row.text(0, 7),
                         std::to_string(number), row.text(0, 8)},
                        kSeparator);
    if (outcome_ == Outcome::replay)
        response_ = read_response(connection_, row);
    if (!row.is_null(0, 6))
        retry_after_ = std::chrono::milliseconds(std::stoll(row.text(0, 6)));
    if (outcome_ == Outcome::started && mode_ == RequestMode::single_tx)
        note_free();
    if (held_)
        number = 0; // the destructor forgets it
}

std::string
IdempotentRequest::part(Part number) const
{
    std::size_t begin = 0;
    for (int i = 0; i < number; ++i)
        begin = owner_.find(kSeparator, begin) + 1;
    return owner_.substr(begin, owner_.find(kSeparator, begin) - begin);
}

std::uint64_t
IdempotentRequest::followed() const noexcept
{
    std::size_t begin = 0;
    for (int i = 0; i < kFollowed; ++i)
        begin = owner_.find(kSeparator, begin) + 1;
    return std::strtoull(owner_.c_str() + begin, nullptr, 10);
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
    const detail::Result done = detail::exec(
        connection_, kComplete,
        {scope_, key_, part(kOwner), std::to_string(response.status), Param::bytes(response.body),
         response.content_type.empty() ? Param(std::nullopt) : Param(response.content_type),
         response.headers.empty()
             ? Param(std::nullopt)
             : Param(detail::json_object(response.headers, PQclientEncoding(connection_)))});
    end_within(done.text(0, 0), false);
}

void
IdempotentRequest::release()
{
    require_held();
    require_connection(connection_);
    if (mode_ == RequestMode::single_tx && !in_transaction())
        throw UsageError(
            "the transaction that began this request has ended: its work is committed, "
            "or it is gone with the key",
            "25000");
    const detail::Result done = detail::exec(connection_, kRelease, {scope_, key_, part(kOwner)});
    end_within(done.text(0, 0), true);
}

// What was done shares the fate of its transaction, and of the savepoints in that.
void
IdempotentRequest::end_within(const std::string &transaction, bool released)
{
    held_ = false;
    in_doubt_ = PQtransactionStatus(connection_) == PQTRANS_INTRANS;
    owner_ =
        joined({part(kOwner), part(kHash), transaction, part(kFollowed), part(kLease)}, kSeparator);
    if (in_doubt_)
        detail::note_answer(connection_, followed(), released);
    else
        detail::forget(connection_, followed());
}

} // namespace outbox::v0
