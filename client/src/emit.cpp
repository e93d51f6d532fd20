#include "outbox/emit.h"

#include "outbox/error.h"
#include "sql.h"
#include "text.h"

#include <array>

namespace outbox::v0
{

namespace
{

using detail::ArrayLiteral;
using detail::Param;

// Bounds of one statement of emit_many(): beyond, a larger one gains nothing.
constexpr std::size_t kMaxEvents = 1000;
constexpr std::size_t kMaxBytes = 1 << 20;

constexpr const char *kEmit = "select outbox.emit($1, $2, $3, $4, $5, $6, $7, $8)";
constexpr const char *kEmitBytes = "select outbox.emit_bytes($1, $2, $3, $4, $5, $6, $7, $8)";

// The same for arrays. Each names only the functions that it needs, as the caller may have no right
// to the other one. A function scan gives its rows in their order.
#define OUTBOX_EVENT_COLUMNS                                                                       \
    "from unnest($1::text[], $2::text[], $3::text[], $4::jsonb[], $5::bytea[], $6::jsonb[],"       \
    " $7::text[], $8::uuid[], $9::int[])"                                                          \
    " as e (type, id, event, payload, bytes, headers, key, event_id, version)"
#define OUTBOX_EMIT_ROW                                                                            \
    "outbox.emit(e.type, e.id, e.event, e.payload, e.headers, e.key, e.event_id, e.version)"
#define OUTBOX_EMIT_BYTES_ROW                                                                      \
    "outbox.emit_bytes(e.type, e.id, e.event, e.bytes, e.headers, e.key, e.event_id, e.version)"
constexpr const char *kEmitRows = "select " OUTBOX_EMIT_ROW " " OUTBOX_EVENT_COLUMNS;
constexpr const char *kEmitBytesRows = "select " OUTBOX_EMIT_BYTES_ROW " " OUTBOX_EVENT_COLUMNS;
constexpr const char *kEmitMixedRows = "select case when e.bytes is null then " OUTBOX_EMIT_ROW
                                       " else " OUTBOX_EMIT_BYTES_ROW " end " OUTBOX_EVENT_COLUMNS;

void
check(const Event &event)
{
    detail::require_text("aggregate_type", event.aggregate_type);
    detail::require_text("aggregate_id", event.aggregate_id);
    detail::require_text("event_type", event.event_type);
    if (const Json *json = std::get_if<Json>(&event.payload))
        detail::require_text("the JSON payload", json->text);
    for (const auto &[name, value] : event.headers)
    {
        detail::require_text("a header's name", name);
        detail::require_text("a header", value);
    }
    if (event.partition_key)
        detail::require_text("partition_key", *event.partition_key);
    if (event.id)
        detail::require_text("the event's id", *event.id);
}

std::size_t
size_of(const Event &event)
{
    std::size_t size = event.aggregate_type.size() + event.aggregate_id.size() +
                       event.event_type.size() + event.partition_key.value_or("").size();
    if (const Json *json = std::get_if<Json>(&event.payload))
        size += json->text.size();
    if (const Bytes *bytes = std::get_if<Bytes>(&event.payload))
        size += 2 * bytes->data.size();
    for (const auto &[name, value] : event.headers)
        size += name.size() + value.size();
    return size;
}

Param
headers_of(const Event &event, int encoding)
{
    return event.headers.empty() ? Param(std::nullopt)
                                 : Param(detail::json_object(event.headers, encoding));
}

Param
version_of(const Event &event)
{
    return event.schema_version ? Param(std::to_string(*event.schema_version))
                                : Param(std::nullopt);
}

// Events of one statement.
class Chunk
{
public:
    explicit Chunk(int encoding) : encoding_(encoding) { columns_.fill(ArrayLiteral(encoding)); }

    bool takes(std::size_t size) const
    {
        return count_ == 0 || (count_ < kMaxEvents && bytes_ + size <= kMaxBytes);
    }

    void add(const Event &event, std::size_t size)
    {
        ++count_;
        bytes_ += size;
        columns_[0].add(event.aggregate_type);
        columns_[1].add(event.aggregate_id);
        columns_[2].add(event.event_type);
        const Json *json = std::get_if<Json>(&event.payload);
        const Bytes *bytes = std::get_if<Bytes>(&event.payload);
        add(columns_[3], json != nullptr ? Param(json->text) : Param(std::nullopt));
        if (bytes != nullptr)
            columns_[4].add_bytes(bytes->data);
        else
            columns_[4].add_null();
        (bytes != nullptr ? has_bytes_ : has_others_) = true;
        add(columns_[5], headers_of(event, encoding_));
        add(columns_[6], event.partition_key);
        add(columns_[7], event.id);
        add(columns_[8], version_of(event));
    }

    void send(PGconn *connection, std::vector<std::string> &ids)
    {
        if (count_ == 0)
            return;
        std::vector<Param> params;
        for (ArrayLiteral &column : columns_)
            params.emplace_back(column.finish());
        const char *sql = !has_bytes_ ? kEmitRows : !has_others_ ? kEmitBytesRows : kEmitMixedRows;
        const detail::Result result = detail::exec(connection, sql, params);
        for (int row = 0; row < result.rows(); ++row)
            ids.push_back(result.text(row, 0));
        count_ = 0;
        bytes_ = 0;
        has_bytes_ = has_others_ = false;
    }

private:
    static void add(ArrayLiteral &column, const Param &value)
    {
        if (value.null)
            column.add_null();
        else
            column.add(value.value);
    }

    const int encoding_;
    std::array<ArrayLiteral, 9> columns_;
    std::size_t count_ = 0;
    std::size_t bytes_ = 0;
    bool has_bytes_ = false;
    bool has_others_ = false;
};

} // namespace

std::string
emit(PGconn *connection, const Event &event)
{
    check(event);
    detail::require_usable(connection);
    const Json *json = std::get_if<Json>(&event.payload);
    const Bytes *bytes = std::get_if<Bytes>(&event.payload);
    Param payload = std::nullopt;
    if (json != nullptr)
        payload = json->text;
    else if (bytes != nullptr)
        payload = Param::bytes(bytes->data);
    const detail::Result result =
        detail::exec(connection, bytes != nullptr ? kEmitBytes : kEmit,
                     {event.aggregate_type, event.aggregate_id, event.event_type, payload,
                      headers_of(event, PQclientEncoding(connection)), event.partition_key,
                      event.id, version_of(event)});
    return result.text(0, 0);
}

std::vector<std::string>
emit_many(PGconn *connection, const std::vector<Event> &events)
{
    detail::require_usable(connection);
    if (PQtransactionStatus(connection) == PQTRANS_IDLE)
        throw UsageError("emit_many() needs an open transaction", "25P01");
    for (const Event &event : events)
        check(event);

    std::vector<std::string> ids;
    ids.reserve(events.size());
    Chunk chunk(PQclientEncoding(connection));
    for (const Event &event : events)
    {
        const std::size_t size = size_of(event);
        if (!chunk.takes(size))
            chunk.send(connection, ids);
        chunk.add(event, size);
    }
    chunk.send(connection, ids);
    return ids;
}

} // namespace outbox::v0
