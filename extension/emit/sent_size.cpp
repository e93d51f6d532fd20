#include "sent_size.h"

#include "extension/server/jsonb_walk.h"
#include "extension/server/numeric_form.h"
#include "extension/server/server_text.h"
#include "extension/server/text_view.h"

namespace outbox
{

namespace
{

// Which text is being converted, for the context of an error.
struct Field
{
    const char *what;
    std::string_view header;
};

void
add_context(void *argument)
{
    const Field *field = static_cast<const Field *>(argument);
    const std::string_view header = clip_server(field->header, 300);
    if (header.empty())
        errcontext("%s of an outbox event", field->what);
    else
        errcontext("%s \"%.*s\" of an outbox event", field->what, static_cast<int>(header.size()),
                   header.data());
}

bool
is_ascii(std::string_view text)
{
    constexpr uint64 kHighBits = UINT64CONST(0x8080808080808080);
    size_t at = 0;
    for (; at + sizeof(uint64) <= text.size(); at += sizeof(uint64))
    {
        uint64 bytes;
        memcpy(&bytes, text.data() + at, sizeof(bytes));
        if ((bytes & kHighBits) != 0)
            return false;
    }
    for (; at < text.size(); at++)
        if (IS_HIGHBIT_SET(text[at]))
            return false;
    return true;
}

// Piece by piece, so that a large text needs little memory.
int64
converted_bytes(std::string_view text)
{
    constexpr size_t kPiece = 16 * 1024;
    if (!has_way_to_utf8())
        ereport(ERROR, (errcode(ERRCODE_UNTRANSLATABLE_CHARACTER),
                        errmsg("no conversion from encoding \"%s\" to \"UTF8\"",
                               GetDatabaseEncodingName()),
                        errhint("Kafka gets UTF-8: use ASCII in this database, or emit_bytes().")));
    int64 bytes = 0;
    while (!text.empty())
    {
        CHECK_FOR_INTERRUPTS();
        int length = static_cast<int>(Min(text.size(), kPiece));
        if (static_cast<size_t>(length) < text.size())
            length = Max(1, pg_mbcliplen(text.data(), static_cast<int>(text.size()), length));
        char *converted = pg_server_to_any(text.data(), length, PG_UTF8);
        bytes += static_cast<int64>(strlen(converted));
        if (converted != text.data())
            pfree(converted);
        text.remove_prefix(static_cast<size_t>(length));
    }
    return bytes;
}

// How many bytes the text takes in UTF-8. Every encoding of a server is ASCII where it has no high
// bit.
int64
utf8_bytes(std::string_view text, const Field &field)
{
    const int64 bytes = static_cast<int64>(text.size());
    if (GetDatabaseEncoding() == PG_UTF8 || is_ascii(text))
        return bytes;
    Field shown = field;
    ErrorContextCallback context = {error_context_stack, add_context, &shown};
    error_context_stack = &context;
    int64 converted = bytes;
    // Of an unknown encoding: it is taken for what it has to be.
    if (GetDatabaseEncoding() == PG_SQL_ASCII)
        (void) pg_verify_mbstr(PG_UTF8, text.data(), static_cast<int>(text.size()), false);
    else
        converted = converted_bytes(text);
    error_context_stack = context.previous;
    return converted;
}

// How many bytes of a text are added by escape_json().
int64
escape_bytes(std::string_view text)
{
    int64 bytes = 0;
    for (size_t at = find_special(text, 0); at < text.size(); at = find_special(text, at + 1))
        switch (text[at])
        {
        case '\b':
        case '\f':
        case '\n':
        case '\r':
        case '\t':
        case '"':
        case '\\':
            bytes += 1;
            break;
        default:
            bytes += 5; // \u001f
            break;
        }
    return bytes;
}

struct SizeSink
{
    int64 bytes;
    int depth;

    void plain(std::string_view text) { bytes += static_cast<int64>(text.size()); }
    void string(std::string_view text)
    {
        bytes += utf8_bytes(text, {"payload", {}}) + escape_bytes(text) + 2;
    }
    void numeric(Numeric value) { bytes += numeric_text_bytes(form_of(value)); }
    void enter()
    {
        if (++depth > kMaxJsonDepth)
            ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                            errmsg("payload is nested deeper than %d levels", kMaxJsonDepth),
                            errhint("Few JSON parsers accept that; use a flatter form, or "
                                    "emit_bytes().")));
    }
    void leave() { depth--; }
    bool full() const { return false; }
};

// Of a length in Kafka's records: 7 bits a byte, one bit for the sign.
int64
length_bytes(int64 length)
{
    int64 bytes = 1;
    for (uint64 left = static_cast<uint64>(length) << 1; left >= 0x80; left >>= 7)
        bytes++;
    return bytes;
}

std::string_view
string_of(const JsonbValue &value)
{
    return {value.val.string.val, static_cast<size_t>(value.val.string.len)};
}

void
add_headers(Jsonb *headers, SentSize *size)
{
    if (!JB_ROOT_IS_OBJECT(headers))
        return;
    for_each_member(
        headers,
        [size](const JsonbValue &name, const JsonbValue &value)
        {
            const int64 name_bytes = utf8_bytes(string_of(name), {"header", string_of(name)});
            int64 value_bytes = 0;
            if (value.type == jbvString)
                value_bytes = utf8_bytes(string_of(value), {"header", string_of(name)});
            else if (value.type == jbvNumeric)
                value_bytes = numeric_text_bytes(form_of(value.val.numeric));
            size->headers +=
                name_bytes + value_bytes + length_bytes(name_bytes) + length_bytes(value_bytes);
            size->header_count++;
        });
}

int64
text_bytes(const text *value, const char *what)
{
    return value == nullptr ? 0 : utf8_bytes(text_view(value), {what, {}});
}

// At most so many bytes of JSON come of a stored one: \u0001. An entry's four bytes pay for what is
// put around it, and for the text of true, false and null, and a container's header for its own.
constexpr int64 kMostOfByte = 6;

// At most so many come of a number in the short form: 64 groups before the point, 63 digits behind.
constexpr int64 kMostOfShortNumber = 64 * kDigitsOfGroup + 63 + 2;

// A level of JSON takes eight bytes at least, so that in these no limit on them is reached.
constexpr int64 kFewBytes = 8192;
static_assert(kFewBytes / 8 <= kMaxJsonDepth);

// How many numbers there are in a container; -1 when one of them is in the long form.
int
short_numbers(JsonbContainer *container)
{
    const size_t size = JsonContainerSize(container);
    const size_t entries = JsonContainerIsObject(container) ? 2 * size : size;
    JsonbEntries at(container, entries);
    int count = 0;
    for (size_t i = 0; i < entries; i++, at.next())
    {
        int more = 0;
        if (JBE_ISNUMERIC(at.entry()))
            more = has_short_form(reinterpret_cast<Numeric>(at.aligned())) ? 1 : -1;
        else if (JBE_ISCONTAINER(at.entry()))
            more = short_numbers(reinterpret_cast<JsonbContainer *>(at.aligned()));
        if (more < 0)
            return -1;
        count += more;
    }
    return count;
}

// No less than the JSON takes, as payload or as headers; -1: to be measured.
int64
most_json_bytes(Jsonb *json)
{
    if (json == nullptr)
        return 0;
    const int64 stored = VARSIZE(json);
    const int numbers = stored <= kFewBytes ? short_numbers(&json->root) : -1;
    return numbers < 0 ? -1 : stored * kMostOfByte + numbers * kMostOfShortNumber;
}

int64
stored_bytes(const struct varlena *value)
{
    return value == nullptr ? 0 : static_cast<int64>(VARSIZE_ANY_EXHDR(value));
}

} // namespace

bool
surely_fits(const EventInput &event, int64 limit)
{
    // In other encodings a text can grow, or have no equivalent.
    if (GetDatabaseEncoding() != PG_UTF8)
        return false;
    const int64 payload = most_json_bytes(event.payload);
    const int64 headers = most_json_bytes(event.headers);
    // No format has a name more than twice.
    const int64 names = stored_bytes(event.aggregate_type) + stored_bytes(event.aggregate_id) +
                        stored_bytes(event.event_type) + stored_bytes(event.partition_key);
    return payload >= 0 && headers >= 0 &&
           payload + headers + stored_bytes(event.payload_bytes) + 2 * names <= limit;
}

SentSize
sent_size(const EventInput &event, HeadersFormat format)
{
    SentSize size = {};
    const int64 aggregate_id = text_bytes(event.aggregate_id, "aggregate_id");
    const int64 types = text_bytes(event.aggregate_type, "aggregate_type") +
                        text_bytes(event.event_type, "event_type");
    size.names =
        types + (event.partition_key != nullptr ? text_bytes(event.partition_key, "partition_key")
                                                : aggregate_id);
    // ce_subject, and with both formats the types twice.
    if (has_cloudevents(format))
        size.names += aggregate_id;
    if (format == kBothHeaders)
        size.names += types;
    if (event.payload_bytes != nullptr)
        size.payload = static_cast<int64>(VARSIZE_ANY_EXHDR(event.payload_bytes));
    else if (event.payload != nullptr)
    {
        SizeSink sink = {};
        walk_container(sink, &event.payload->root);
        size.payload = sink.bytes;
    }
    if (event.headers != nullptr)
        add_headers(event.headers, &size);
    return size;
}

} // namespace outbox
