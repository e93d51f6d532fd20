#include "outbox/emit.h"

#include "outbox/error.h"
#include "sql.h"
#include "text.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace outbox::v0
{

namespace
{

using detail::Param;

// Bounds of one statement of emit_many(): beyond, a larger one gains nothing.
constexpr std::size_t kMaxEvents = 1000;
constexpr std::size_t kMaxBytes = 1 << 20;

constexpr const char *kEmit = "select outbox.emit($1, $2, $3, $4, $5, $6, $7, $8)";
constexpr const char *kEmitBytes = "select outbox.emit_bytes($1, $2, $3, $4, $5, $6, $7, $8)";

// PostgreSQL's numbers of types, which never change.
constexpr std::uint32_t kBytea = 17;
constexpr std::uint32_t kInt4 = 23;
constexpr std::uint32_t kText = 25;
constexpr std::uint32_t kJsonb = 3802;

// The same for arrays. Each names only the functions that it needs, as the caller may have no right
// to the other one. A function scan gives its rows in their order.
#define OUTBOX_EVENT_COLUMNS                                                                       \
    "from unnest($1::text[], $2::text[], $3::text[], $4::jsonb[], $5::bytea[], $6::jsonb[],"       \
    " $7::text[], $8::text[], $9::int[])"                                                          \
    " as e (type, id, event, payload, bytes, headers, key, event_id, version)"
#define OUTBOX_EMIT_ROW                                                                            \
    "outbox.emit(e.type, e.id, e.event, e.payload, e.headers, e.key, e.event_id::uuid, e.version)"
#define OUTBOX_EMIT_BYTES_ROW                                                                      \
    "outbox.emit_bytes(e.type, e.id, e.event, e.bytes, e.headers, e.key, e.event_id::uuid, "       \
    "e.version)"
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
        size += bytes->data.size();
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

std::string
big_endian(std::uint32_t number)
{
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8)
        bytes += static_cast<char>(number >> shift & 0xFF);
    return bytes;
}

// An array in PostgreSQL's binary format: what is null in it does not depend on array_nulls, and
// nothing is to be escaped in any encoding.
class BinaryArray
{
public:
    explicit BinaryArray(std::uint32_t type) : type_(type) {}

    void add_text(std::string_view element)
    {
        ++count_;
        elements_.append(big_endian(static_cast<std::uint32_t>(element.size()))).append(element);
    }
    void add_null()
    {
        ++count_;
        has_null_ = true;
        elements_ += big_endian(UINT32_MAX);
    }
    // jsonb has the version of its format in front.
    void add(const Param &value)
    {
        if (value.null)
            add_null();
        else
            add_text(type_ == kJsonb ? "\1" + value.value : value.value);
    }
    // The whole array. The object can be used again afterwards.
    Param finish()
    {
        std::string whole = big_endian(1) + big_endian(has_null_ ? 1 : 0) + big_endian(type_) +
                            big_endian(count_) + big_endian(1) + elements_;
        *this = BinaryArray(type_);
        return Param::bytes(std::move(whole));
    }

private:
    std::uint32_t type_;
    std::uint32_t count_ = 0;
    bool has_null_ = false;
    std::string elements_;
};

// Events of one statement.
class Chunk
{
public:
    explicit Chunk(int encoding) : encoding_(encoding) {}

    bool takes(std::size_t size) const
    {
        return count_ == 0 || (count_ < kMaxEvents && bytes_ + size <= kMaxBytes);
    }

    void add(const Event &event, std::size_t size)
    {
        ++count_;
        bytes_ += size;
        columns_[0].add_text(event.aggregate_type);
        columns_[1].add_text(event.aggregate_id);
        columns_[2].add_text(event.event_type);
        const Json *json = std::get_if<Json>(&event.payload);
        const Bytes *bytes = std::get_if<Bytes>(&event.payload);
        columns_[3].add(json != nullptr ? Param(json->text) : Param(std::nullopt));
        columns_[4].add(bytes != nullptr ? Param(bytes->data) : Param(std::nullopt));
        (bytes != nullptr ? has_bytes_ : has_others_) = true;
        columns_[5].add(headers_of(event, encoding_));
        columns_[6].add(Param(event.partition_key));
        columns_[7].add(Param(event.id));
        columns_[8].add(event.schema_version
                            ? Param(big_endian(static_cast<std::uint32_t>(*event.schema_version)))
                            : Param(std::nullopt));
    }

    void send(PGconn *connection, std::vector<std::string> &ids)
    {
        if (count_ == 0)
            return;
        std::vector<Param> params;
        for (BinaryArray &column : columns_)
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
    const int encoding_;
    // As OUTBOX_EVENT_COLUMNS has them.
    std::array<BinaryArray, 9> columns_ = {
        BinaryArray(kText),  BinaryArray(kText),  BinaryArray(kText),
        BinaryArray(kJsonb), BinaryArray(kBytea), BinaryArray(kJsonb),
        BinaryArray(kText),  BinaryArray(kText),  BinaryArray(kInt4)};
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
