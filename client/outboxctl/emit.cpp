// outboxctl emit
#include "commands.h"

#include "errors.h"
#include "interrupts.h"
#include "relay_view.h"
#include "standard_output.h"
#include "units.h"

#include "client/src/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace outbox::ctl
{

namespace
{

// The largest that outbox.max_event_size can be.
constexpr std::size_t kMaxPayload = std::size_t{256} * 1024 * 1024;

// A wait that is no longer needed ends in the server after this long at most.
constexpr double kWaitSlice = 1;

std::string
read_all(std::FILE *file, const std::string &name)
{
    std::string content;
    char buffer[65536];
    std::size_t count = 0;
    while ((count = std::fread(buffer, 1, sizeof buffer, file)) > 0)
    {
        content.append(buffer, count);
        if (content.size() > kMaxPayload)
            throw Error(kFailed, name + " is larger than any event may be");
    }
    if (std::ferror(file) != 0)
        throw Error(kFailed, "cannot read " + name + ": " + std::strerror(errno));
    return content;
}

std::string
read_source(const std::string &name)
{
    if (name == "-")
        return read_all(stdin, "standard input");
    const std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(name.c_str(), "rb"),
                                                                &std::fclose);
    if (!file)
        throw Error(kFailed, "cannot open " + name + ": " + std::strerror(errno));
    return read_all(file.get(), name);
}

Text
payload_of(const EmitOptions &options)
{
    if (options.tombstone)
        return std::nullopt;
    if (!options.file.empty())
        return read_source(options.file);
    if (!options.payload)
        throw Error(kUsage, "there is no payload",
                    "Give it as the fourth argument, with --file, or say --tombstone.");
    return *options.payload == "-" ? read_source("-") : *options.payload;
}

// As the parameter of emit() or emit_bytes().
Text
payload_parameter(const EmitOptions &options)
{
    Text payload = payload_of(options);
    if (payload && options.bytes)
    {
        std::string hex = "\\x";
        hex.reserve(hex.size() + 2 * payload->size());
        outbox::v0::detail::append_hex(hex, *payload);
        return hex;
    }
    if (payload && payload->find('\0') != std::string::npos)
        throw Error(kFailed, "the payload contains a zero byte, so it is not JSON",
                    "Say --bytes to send it as it is.");
    if (payload && !is_utf8(*payload))
        throw Error(kFailed, "the payload is not UTF-8, so it is not JSON",
                    "Say --bytes to send it as it is.");
    return payload;
}

Text
headers_parameter(const EmitOptions &options)
{
    if (options.headers.empty())
        return std::nullopt;
    Json json = Json::object();
    for (const std::string &header : options.headers)
    {
        const std::size_t equals = header.find('=');
        if (equals == std::string::npos || equals == 0)
            throw Error(kUsage, "a header is NAME=VALUE");
        const std::string name = header.substr(0, equals);
        if (json.contains(name))
            throw Error(kUsage, "the header \"" + name + "\" is given twice");
        json[name] = header.substr(equals + 1);
    }
    // With as few escapes as there can be: not every database's encoding has them.
    return json.dump();
}

// What is read is read before.
std::vector<Text>
parameters_of(const EmitOptions &options)
{
    const Text version =
        options.schema_version ? Text(std::to_string(*options.schema_version)) : std::nullopt;
    return {options.aggregate_type,
            options.aggregate_id,
            options.event_type,
            payload_parameter(options),
            headers_parameter(options),
            options.key,
            options.id,
            version};
}

std::string
emit(Database &database, const EmitOptions &options, const std::vector<Text> &parameters)
{
    const std::string call = options.bytes ? "outbox.emit_bytes($1, $2, $3, $4::bytea,"
                                           : "outbox.emit($1, $2, $3, $4::jsonb,";
    return database
        .change("the event is emitted",
                "select " + call + " $5::jsonb, $6, $7::uuid, $8::int)::text as id", parameters)
        .value(0, "id");
}

// Ends the wait for an event that Kafka has refused for good. Roles that may wait and not watch
// wait to the end.
void
check_not_refused(Database &database, const std::string &id)
{
    if (!may_select(database, "outbox.event_status", {"id", "status", "last_error"}))
        return;
    const Rows rows = database.query("select last_error from outbox.event_status "
                                     "where id = $1::uuid and status = 'FAILED'",
                                     {id});
    if (!rows.empty())
        throw Error(kFailed, "Kafka refused the event: " + rows.raw(0, "last_error").value_or(""),
                    "\"outboxctl failed show " + id + "\" shows more.");
}

// How long it took, or nothing when the time was over first.
std::optional<double>
wait_published(Database &database, const std::string &id, double limit)
{
    const auto begin = Clock::now();
    for (;;)
    {
        const double passed = std::chrono::duration<double>(Clock::now() - begin).count();
        const double slice = std::clamp(limit - passed, 0.0, kWaitSlice);
        const bool published =
            database
                .query("select outbox.wait_published($1::uuid, make_interval(secs => $2::float8)) "
                       "as ok",
                       {id, std::to_string(slice)})
                .flag(0, "ok");
        const double now = std::chrono::duration<double>(Clock::now() - begin).count();
        if (published)
            return now;
        check_not_refused(database, id);
        if (now >= limit)
            return std::nullopt;
    }
}

// Why an event is not published, as far as the relay's state tells and the role may see it.
std::string
why_not_published(Database &database)
{
    if (!may_select(database, "outbox.relay_status", {"state"}))
        return "\"outboxctl status\" may say why";
    const Rows rows = database.query("select state from outbox.relay_status");
    const std::string state = rows.empty() ? "" : rows.value(0, "state");
    const std::string text = text_of_state(state).meaning;
    return state == "running" || text.empty()
               ? "\"outboxctl status\" may say why"
               : "the relay is " + state + ": " + text + "; \"outboxctl doctor\" says what to do";
}

// Adds to the answer what became of the event. What ends the wait is thrown, after the answer.
int
wait_and_tell(const Context &context, Database &database, double limit, Json &json)
{
    std::optional<double> seconds;
    json["published"] = nullptr; // the event is there all the same
    try
    {
        seconds = wait_published(database, json["id"], limit);
    }
    catch (const Ended &)
    {
        if (context.output.json())
            context.output.document(json);
        throw;
    }
    json["published"] = seconds.has_value();
    json["seconds"] = or_null(seconds);
    if (!context.output.json())
        Output::remark(seconds ? "published after " + human_duration(*seconds)
                               : "not published within " + human_duration(limit) +
                                     "; it is kept, and " + why_not_published(database));
    return seconds ? kOk : kFound;
}

} // namespace

int
run_emit(const Context &context, const EmitOptions &options)
{
    Database database = open_outbox(context);
    const std::vector<Text> parameters = parameters_of(options);
    const Interrupts interrupts;
    const std::string id = emit(database, options, parameters);
    note_effect("The event " + id + " is emitted.");
    Json json = {{"id", id}};
    if (!context.output.json())
    {
        context.output.line(id);
        flush_output();
    }
    const int status = options.wait ? wait_and_tell(context, database, *options.wait, json) : kOk;
    if (context.output.json())
        context.output.document(json);
    flush_output(); // a signal that came ends us after it
    return status;
}

} // namespace outbox::ctl
