#include "message.h"

#include "extension/core/json_text.h"
#include "extension/core/verdict.h"

#include "signature.h"

#include <vector>

namespace outbox::http
{

namespace
{

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kCloudEventsJson = "application/cloudevents+json; charset=utf-8";
constexpr char kHex[] = "0123456789ABCDEF";
constexpr std::size_t kUsualHeaders = 256;

// What the relay says of an event, from its headers in Debezium's form or in CloudEvents'.
struct Attributes
{
    std::string_view id;
    std::string_view source;
    std::string_view type;
    std::string_view time;
    std::string_view subject;
    std::string_view aggregate_type;
    std::string_view schema_version;
    std::string_view content_type;
    std::string_view replay_id;
    std::vector<const Header *> others; // the caller's
};

// Which attribute a header of the relay's is; null: it is the caller's. The relay's have the names
// of one of the two forms, and a caller may use those of the other.
std::string_view *
attribute_of(Attributes &all, std::string_view name, bool cloudevents)
{
    const struct
    {
        std::string_view cloudevents;
        std::string_view debezium;
        std::string_view &value;
    } kKnown[] = {{"ce_id", "id", all.id},
                  {"ce_source", "", all.source},
                  {"ce_type", "event_type", all.type},
                  {"ce_time", "created_at", all.time},
                  {"ce_subject", "", all.subject},
                  {"ce_aggregatetype", "aggregate_type", all.aggregate_type},
                  {"ce_schemaversion", "schema_version", all.schema_version},
                  {"content-type", "content-type", all.content_type}};
    for (const auto &known : kKnown)
        if (name == (cloudevents ? known.cloudevents : known.debezium) && !name.empty())
            return &known.value;
    return nullptr;
}

Attributes
attributes_of(const Record &record)
{
    Attributes all;
    const auto *end = record.headers + record.header_count;
    // That of a replay comes before all others.
    const auto *first = record.headers;
    if (first != end && first->name == "replay_id")
        all.replay_id = (first++)->value;
    const bool cloudevents = first != end && first->name.substr(0, 3) == "ce_";
    for (const auto *at = first; at != end; ++at)
    {
        const Header &header = *at;
        if (header.is_null || header.name == "ce_specversion")
            continue;
        // The relay's own come first, so a caller's header takes none of their places.
        std::string_view *value = attribute_of(all, header.name, cloudevents);
        if (value != nullptr && value->data() == nullptr)
            *value = header.value;
        else
            all.others.push_back(&header);
    }
    if (all.subject.data() == nullptr)
        all.subject = record.key;
    return all;
}

void
end_line(std::string &headers)
{
    headers += '\0';
}

void
add(std::string &headers, std::string_view name, std::string_view text)
{
    if (text.empty())
        return;
    headers.append(name).append(": ");
    encode_header(text, headers);
    end_line(headers);
}

// Those of the World Wide Web Consortium are known by these names everywhere, and their values are
// ASCII.
bool
is_trace_header(std::string_view name)
{
    return name == "traceparent" || name == "tracestate" || name == "baggage";
}

// A caller's header cannot pass for one of the relay's, of an operator or of a proxy: it has a
// prefix.
void
add_others(const Attributes &all, std::string &headers)
{
    for (const Header *header : all.others)
    {
        if (is_trace_header(header->name) && is_header_value(header->value))
            headers.append(header->name).append(": ").append(header->value);
        else
        {
            headers += "outbox-header-";
            for (const char c : header->name)
            {
                const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                   (c >= '0' && c <= '9') || c == '-' || c == '.';
                const auto byte = static_cast<unsigned char>(c);
                if (plain)
                    headers += c;
                else
                    headers.append({'%', kHex[byte >> 4], kHex[byte & 15]});
            }
            // One without a value is there as well.
            headers += header->value.empty() ? ";" : ": ";
            encode_header(header->value, headers);
        }
        end_line(headers);
    }
}

void
add_standard(const Attributes &all, std::string &headers)
{
    add(headers, "outbox-event-type", all.type);
    add(headers, "outbox-aggregate-type", all.aggregate_type);
    add(headers, "outbox-aggregate-id", all.subject);
    add(headers, "outbox-created-at", all.time);
    add(headers, "outbox-schema-version", all.schema_version);
}

void
add_cloudevents(const Attributes &all, std::string &headers)
{
    add(headers, "ce-specversion", "1.0");
    add(headers, "ce-id", all.id);
    add(headers, "ce-source", all.source.empty() ? "/" : all.source);
    add(headers, "ce-type", all.type);
    add(headers, "ce-time", all.time);
    add(headers, "ce-subject", all.subject);
    add(headers, "ce-aggregatetype", all.aggregate_type);
    add(headers, "ce-schemaversion", all.schema_version);
}

void
append_quoted(std::string &json, std::string_view text)
{
    json += '"';
    for (const char c : text)
    {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\')
            json.append({'\\', c});
        else if (byte < 0x20)
            json.append({'\\', 'u', '0', '0', kHex[byte >> 4], kHex[byte & 15]});
        else
            json += c;
    }
    json += '"';
}

void
append_member(std::string &json, const char *name, std::string_view value)
{
    if (!value.empty())
    {
        json.append(json.size() > 1 ? "," : "").append("\"").append(name).append("\":");
        append_quoted(json, value);
    }
}

bool
says_json(std::string_view type)
{
    const std::string_view plain = type.substr(0, type.find(';'));
    return plain == kJson || (plain.size() > 5 && plain.substr(plain.size() - 5) == "+json");
}

std::string
structured_body(const Attributes &all, const Record &record, std::string_view value)
{
    std::string json = "{";
    json.reserve(value.size() + 512);
    append_member(json, "specversion", "1.0");
    append_member(json, "id", all.id);
    append_member(json, "source", all.source.empty() ? "/" : all.source);
    append_member(json, "type", all.type);
    append_member(json, "time", all.time);
    append_member(json, "subject", all.subject);
    append_member(json, "aggregatetype", all.aggregate_type);
    append_member(json, "schemaversion", all.schema_version);
    if (!record.tombstone)
    {
        const std::string_view type = all.content_type.empty() ? kJson : all.content_type;
        append_member(json, "datacontenttype", type);
        // Bytes that only call themselves JSON could end the object, and begin another one.
        if (says_json(type) && is_json(value))
            json.append(",\"data\":").append(value);
        else
            json.append(",\"data_base64\":\"").append(to_base64(value)).append("\"");
    }
    json += '}';
    return json;
}

bool
refuse_event(Failure &why, const char *name, const char *text)
{
    set_failure(why, FailureClass::event, name, "%s", text);
    return false;
}

} // namespace

void
encode_header(std::string_view text, std::string &encoded)
{
    for (const char c : text)
    {
        const auto byte = static_cast<unsigned char>(c);
        if (c > ' ' && c <= '~' && c != '"' && c != '%')
            encoded += c;
        else
            encoded.append({'%', kHex[byte >> 4], kHex[byte & 15]});
    }
}

bool
make_message(const Record &record, Format format, Message &message, Failure &why)
{
    const Attributes all = attributes_of(record);
    const std::string_view value =
        record.tombstone
            ? std::string_view()
            : std::string_view(static_cast<const char *>(record.value), record.value_size);
    if (all.id.empty() || !is_header_value(all.id))
        return refuse_event(why, "NO_ID", "the record has no id that a header could hold");
    if (!all.content_type.empty() && !is_header_value(all.content_type))
        return refuse_event(why, "CONTENT_TYPE", "the event's content-type is not printable ASCII");
    message.id = all.id;
    std::string &headers = message.headers;
    headers.clear();
    headers.reserve(kUsualHeaders);
    headers += "content-type:";
    if (format == Format::cloudevents_structured)
    {
        message.body = structured_body(all, record, value);
        headers.append(" ").append(kCloudEventsJson);
        end_line(headers);
    }
    else
    {
        message.body = value;
        // Without one libcurl would say that it is a form.
        if (!record.tombstone)
            headers.append(" ").append(all.content_type.empty() ? kJson : all.content_type);
        end_line(headers);
        if (format == Format::standard)
            add_standard(all, headers);
        else
            add_cloudevents(all, headers);
    }
    add(headers, "outbox-replay-id", all.replay_id);
    add_others(all, headers);
    return true;
}

} // namespace outbox::http
