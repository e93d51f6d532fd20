#include "extension/core/routes.h"

#include "event_record.h"
#include "wire.h"

#include "attempt.h"

#include "extension/server/text_view.h"

namespace outbox
{

namespace
{

// Before the first producer is there, nothing is built.
size_t record_limit = 1024 * 1024;

// A jsonb value is stored in at most four times the bytes of its text, and a few.
constexpr size_t kStoredJsonb = 4;

struct Reading
{
    const EventRow &event;
    TimestampTz now;
    EventLine *line;
    Record *record; // null: only the line
    Failure *why;
    bool line_known;
};

enum class Outcome
{
    good,
    refused,
    too_deep // to be read without a guard of the stack
};

bool
is_inline(const struct varlena *value)
{
    return value == nullptr || (!VARATT_IS_EXTERNAL(value) && !VARATT_IS_COMPRESSED(value));
}

// Whether nothing but a lack of memory can go wrong: there is nothing to fetch, to decompress or to
// convert.
bool
is_plain(const EventRow &event)
{
    return GetDatabaseEncoding() == PG_UTF8 && is_inline(event.aggregate_type) &&
           is_inline(event.aggregate_id) && is_inline(event.event_type) &&
           is_inline(event.partition_key) && is_inline(event.payload) &&
           is_inline(event.payload_bytes) && is_inline(event.headers);
}

// Bytes of a value as it is stored, without reading it.
size_t
stored_size(struct varlena *value)
{
    return value == nullptr ? 0 : toast_raw_datum_size(PointerGetDatum(value)) - VARHDRSZ;
}

void
refuse(Failure *why, int sqlerrcode, const char *format, const char *what)
{
    char text[sizeof(why->text)];
    snprintf(text, sizeof(text), format, what);
    describe_error(sqlerrcode, text, why);
}

Outcome
refuse_size(Failure *why)
{
    char limit[32];
    snprintf(limit, sizeof(limit), "%zu", record_limit);
    refuse(why, ERRCODE_PROGRAM_LIMIT_EXCEEDED, "the event takes more than %s bytes as it is sent",
           limit);
    set_hint(*why, "The limit is outbox.max_event_size and 64 KiB, or message.max.bytes.");
    return Outcome::refused;
}

std::string_view
read_text(struct varlena *stored)
{
    return text_view(pg_detoast_datum_packed(stored));
}

Jsonb *
read_jsonb(struct varlena *stored)
{
    return stored == nullptr ? nullptr : DatumGetJsonbP(PointerGetDatum(stored));
}

Outcome
read_names(const Reading &reading, EventTexts *texts)
{
    const EventRow &event = reading.event;
    EventLine *line = reading.line;
    struct varlena *key = event.partition_key != nullptr ? event.partition_key : event.aggregate_id;
    // What is larger can have no topic and no place in a record.
    if (stored_size(event.aggregate_type) > record_limit ||
        stored_size(event.event_type) > record_limit ||
        stored_size(event.aggregate_id) > record_limit || stored_size(key) > record_limit)
        return refuse_size(reading.why);
    if (key != nullptr)
        line->key = read_text(key);
    if (event.missing != nullptr)
        refuse(reading.why, ERRCODE_NOT_NULL_VIOLATION, "column \"%s\" of the event is null",
               event.missing);
    if (event.aggregate_type == nullptr || event.event_type == nullptr)
        return Outcome::refused;
    texts->aggregate_type = read_text(event.aggregate_type);
    texts->event_type = read_text(event.event_type);
    texts->key = line->key;
    const Route *route = route_of(texts->aggregate_type, texts->event_type);
    texts->format = headers_by(route);
    if (route != nullptr)
        line->blocks = route->blocks;
    const TopicName topic = topic_by(route, texts->aggregate_type, texts->event_type,
                                     line->topic_buffer, sizeof(line->topic_buffer));
    if (topic.error == nullptr)
        line->topic = {line->topic_buffer, topic.length};
    if (event.missing != nullptr)
        return Outcome::refused;
    if (topic.error == nullptr)
        return Outcome::good;
    set_failure(*reading.why, FailureClass::event, "INVALID_TOPIC", "the topic name %s",
                topic.error);
    set_hint(*reading.why, "Correct outbox.topic_template or outbox.routes.");
    return Outcome::refused;
}

Outcome
read_contents(const Reading &reading, EventTexts *texts, int depth)
{
    const EventRow &event = reading.event;
    const size_t stored = kStoredJsonb * record_limit + 1024;
    if (stored_size(event.payload_bytes) > record_limit || stored_size(event.payload) > stored ||
        stored_size(event.headers) > stored)
        return refuse_size(reading.why);
    texts->aggregate_id = read_text(event.aggregate_id);
    texts->payload = read_jsonb(event.payload);
    texts->headers = read_jsonb(event.headers);
    texts->payload_bytes =
        event.payload_bytes != nullptr ? pg_detoast_datum_packed(event.payload_bytes) : nullptr;
    RecordProblem problem = {};
    reading.record->topic = reading.line->topic;
    switch (build_record(event, *texts, reading.now, record_limit, depth, reading.record, &problem))
    {
    case BuildResult::built:
        return Outcome::good;
    case BuildResult::too_large:
        return refuse_size(reading.why);
    case BuildResult::too_deep:
        return Outcome::too_deep;
    case BuildResult::refused:
        break;
    }
    describe_error(problem.sqlerrcode, problem.text, reading.why);
    return Outcome::refused;
}

Outcome
read_unguarded(Reading *reading, int depth)
{
    EventTexts texts = {};
    const Outcome outcome = read_names(*reading, &texts);
    reading->line_known = true;
    return outcome != Outcome::good || reading->record == nullptr
               ? outcome
               : read_contents(*reading, &texts, depth);
}

// As much of the line as can be read when the rest of it cannot.
void
read_parts_of_line(const Reading &reading)
{
    const EventRow &event = reading.event;
    Failure ignored; // reading.why has the first
    EventTexts texts = {};
    EventRow types = event;
    types.partition_key = nullptr;
    types.aggregate_id = nullptr;
    const Reading only_topic = {types, reading.now, reading.line, nullptr, &ignored, false};
    (void) attempt([&] { (void) read_names(only_topic, &texts); }, &ignored);
    EventRow key = event;
    key.aggregate_type = nullptr;
    key.event_type = nullptr;
    const Reading only_key = {key, reading.now, reading.line, nullptr, &ignored, false};
    (void) attempt([&] { (void) read_names(only_key, &texts); }, &ignored);
}

bool
read(Reading *reading)
{
    // Deeper than anybody's documents are, and far from any limit of the stack.
    constexpr int kUsualDepth = 100;
    reading->line->topic = "?";
    reading->line->key = {};
    reading->line->blocks.reset();
    if (is_plain(reading->event))
    {
        const Outcome outcome = read_unguarded(reading, kUsualDepth);
        if (outcome != Outcome::too_deep)
            return outcome == Outcome::good;
    }
    Outcome outcome = Outcome::refused;
    if (attempt([&] { outcome = read_unguarded(reading, PG_INT32_MAX); }, reading->why))
        return outcome == Outcome::good;
    if (!reading->line_known)
        read_parts_of_line(*reading);
    return false;
}

} // namespace

bool
read_line(const EventRow &event, EventLine *line, Failure *why)
{
    Reading reading = {event, 0, line, nullptr, why, false};
    return read(&reading);
}

bool
read_record(const EventRow &event, TimestampTz now, EventLine *line, Record *record, Failure *why)
{
    *record = {};
    Reading reading = {event, now, line, record, why, false};
    return read(&reading);
}

void
limit_records(size_t bytes)
{
    // What a text may have, less what one value and the end of a record may add.
    constexpr size_t kMost = 1000 * 1000 * 1000;
    record_limit = Min(bytes, kMost);
}

} // namespace outbox
