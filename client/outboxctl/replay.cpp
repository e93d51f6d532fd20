// outboxctl replay, outboxctl replays list, outboxctl replays cancel
#include "commands.h"

#include "errors.h"
#include "interrupts.h"
#include "standard_error.h"
#include "standard_output.h"
#include "subscription_view.h"
#include "terminal.h"
#include "units.h"

#include <fmt/format.h>

#include <algorithm>

#include <unistd.h>

namespace outbox::ctl
{

namespace
{

constexpr auto kLook = Milliseconds(250);

// An extension that is still to be updated to 0.3 has no column `subscription`: the name is that of
// only_one then.
constexpr const char *kColumns =
    "select f.* from (select 'default'::text as subscription) only_one cross join lateral (select "
    "r.replay_id::text, r.state, r.total, r.published, r.refused, r.missing, "
    "r.percent, extract(epoch from r.remaining)::numeric as remaining_seconds, "
    "r.last_error, r.aggregate_type, r.event_type, r.aggregate_id, r.since, r.until, r.max_count, "
    "r.rate_per_second, r.topic, r.matching, r.requested_by::text, r.requested_at, r.started_at, "
    "r.ended_at, r.cancelled_by::text, subscription, "
    "extract(epoch from clock_timestamp() - r.requested_at)::float8 as age from outbox.replays r) "
    "f ";

Json
to_json(const Rows &rows, int row)
{
    Json json = rows.object(row);
    json.erase("age");
    return json;
}

Rows
look_at(Database &database, const std::string &id)
{
    Rows rows = database.query(std::string(kColumns) + "where f.replay_id = $1", {id});
    if (rows.empty())
        throw Error(kFailed, "the replay with id " + id + " is gone");
    return rows;
}

// An age or a time becomes a time, once, so that what is counted is what is replayed.
Text
resolved(Database &database, const std::optional<std::string> &given)
{
    if (!given)
        return std::nullopt;
    const std::optional<double> age = parse_duration(*given);
    const Rows rows =
        age ? database.query("select (now() - make_interval(secs => $1::float8))::text as at",
                             {std::to_string(*age)})
            : database.query("select ($1::timestamptz)::text as at", {*given});
    return rows.raw(0, "at");
}

std::string
ask_for(Database &database, const ReplayOptions &options, const Text &since, const Text &until,
        bool dry_run)
{
    std::vector<Text> parameters = {options.aggregate_type,
                                    options.event_type,
                                    options.aggregate_id,
                                    since,
                                    until,
                                    std::to_string(options.max_count),
                                    std::to_string(options.rate),
                                    std::string(dry_run ? "true" : "false"),
                                    options.topic};
    if (options.subscription)
        parameters.push_back(options.subscription);
    return database
        .change(dry_run ? "the dry run is counted" : "the replay is asked for",
                std::string("select outbox.replay($1, $2, $3, $4::timestamptz, $5::timestamptz, "
                            "$6::int, $7::int, $8::boolean, $9") +
                    (options.subscription ? ", $10)" : ")") + "::text as id",
                parameters)
        .value(0, "id");
}

// "the oldest 1,000 of 12,345 events that match"
std::string
amount(const Rows &rows)
{
    const long long total = rows.number(0, "total").value_or(0);
    const long long matching = rows.number(0, "matching").value_or(total);
    return total == matching ? counted(total, "event")
                             : fmt::format("the oldest {} of {} that match", with_commas(total),
                                           counted(matching, "event"));
}

bool
agreed(const Context &context, const ReplayOptions &options, const Rows &counted_before)
{
    if (options.yes)
        return true;
    if (!can_ask() || context.output.json())
        throw Error(
            kUsage, amount(counted_before) + " would be replayed, which has to be confirmed",
            "Pass --yes when there is no terminal to confirm on, or --dry-run to count them.");
    const std::string to =
        (options.topic ? " to topic " + printable(*options.topic) : "") +
        (options.subscription ? " by subscription " + printable(*options.subscription) : "");
    return ask(
        fmt::format("Replay {}{}, {} a second (about {})?", amount(counted_before), to,
                    with_commas(options.rate),
                    human_duration(counted_before.real(0, "remaining_seconds").value_or(0))));
}

// A line that is written over, on a terminal only.
class ProgressBar
{
public:
    explicit ProgressBar(bool wanted) : wanted_(wanted && isatty(STDERR_FILENO) != 0) {}
    ~ProgressBar() { clear(); }
    ProgressBar(const ProgressBar &) = delete;
    ProgressBar &operator=(const ProgressBar &) = delete;

    void show(const Rows &rows)
    {
        if (!wanted_)
            return;
        const double percent = rows.real(0, "percent").value_or(0);
        const auto full = static_cast<std::size_t>(
            std::clamp(percent / 100 * kWidth, 0.0, static_cast<double>(kWidth)));
        const bool waits = rows.value(0, "state") == "QUEUED";
        write_raw_error(fmt::format(
            "\r[{}{}] {:.0f} %  {} of {}, {}\x1b[K", std::string(full, '#'),
            std::string(kWidth - full, '-'), percent,
            with_commas(rows.number(0, "published").value_or(0)),
            with_commas(rows.number(0, "total").value_or(0)),
            waits ? "has not begun"
                  : human_duration(rows.real(0, "remaining_seconds").value_or(0)) + " left"));
        shown_ = true;
    }
    void clear()
    {
        if (shown_)
            write_raw_error("\r\x1b[K");
        shown_ = false;
    }

private:
    static constexpr std::size_t kWidth = 30;
    bool wanted_;
    bool shown_ = false;
};

void
pause_between_looks()
{
    const auto deadline = Clock::now() + kLook;
    for (;;)
        switch (wait_for(-1, 0, deadline))
        {
        case Woken::kStop:
            stop_here();
            return;
        case Woken::kResized:
            break;
        case Woken::kTimeout:
        case Woken::kReady:
            return;
        }
}

// Follows it to its end.
Rows
watch(const Context &context, Database &database, const std::string &id)
{
    ProgressBar bar(!context.output.json());
    try
    {
        for (;;)
        {
            Rows rows = look_at(database, id);
            if (rows.text(0, "ended_at"))
                return rows;
            bar.show(rows);
            pause_between_looks();
        }
    }
    catch (const Interrupted &)
    {
        note_effect("the replay continues; \"outboxctl replays cancel " + id + "\" ends it");
        throw;
    }
}

int
tell_end(const Context &context, const Rows &rows)
{
    const long long published = rows.number(0, "published").value_or(0);
    const bool whole = published == rows.number(0, "total").value_or(0);
    if (context.output.json())
    {
        context.output.document(to_json(rows, 0));
        return whole ? kOk : kFound;
    }
    context.output.line(fmt::format("Replay {} is {}: {} published again.",
                                    rows.value(0, "replay_id"), lower(rows.value(0, "state")),
                                    counted(published, "event")));
    const long long refused = rows.number(0, "refused").value_or(0);
    const long long missing = rows.number(0, "missing").value_or(0);
    if (refused > 0)
        context.output.line(counted(refused, "event") + " refused by Kafka and left out.");
    if (missing > 0)
        context.output.line(counted(missing, "event") + ": no longer there.");
    if (const Text error = whole ? std::nullopt : rows.text(0, "last_error"))
        context.output.line("Last error: " + printable(*error));
    return whole ? kOk : kFound;
}

// What was chosen, as the options that choose it.
std::string
choice_of(const Rows &rows, int row)
{
    std::string text;
    const auto add = [&](const char *option, const char *column)
    {
        if (const Text value = rows.text(row, column))
            text += (text.empty() ? "" : " ") + std::string(option) + " " + *value;
    };
    add("--type", "aggregate_type");
    add("--event-type", "event_type");
    add("--id", "aggregate_id");
    add("--since", "since");
    add("--until", "until");
    add("--topic", "topic");
    if (rows.value(row, "subscription") != "default")
        add("--subscription", "subscription");
    return text.empty() ? "all events" : text;
}

} // namespace

int
run_replay(const Context &context, const ReplayOptions &options)
{
    Database database = open_outbox(context);
    const Text since = resolved(database, options.since);
    const Text until = resolved(database, options.until);
    const Rows found = look_at(database, ask_for(database, options, since, until, true));
    const bool none = found.number(0, "total").value_or(0) == 0;
    if (options.dry_run || none)
    {
        if (context.output.json())
            context.output.document(to_json(found, 0));
        else if (none)
            context.output.line("There are no such events.");
        else
            context.output.line(
                fmt::format("{} would be replayed; about {}.", amount(found),
                            human_duration(found.real(0, "remaining_seconds").value_or(0))));
        return kOk;
    }
    if (!agreed(context, options, found))
    {
        context.output.line("Nothing was done.");
        return kInterrupted;
    }
    const Interrupts interrupts;
    const std::string id = ask_for(database, options, since, until, false);
    note_effect("The replay " + id + " is asked for.");
    int status = kOk;
    if (!options.detach)
        status = tell_end(context, watch(context, database, id));
    else if (context.output.json())
        context.output.document(to_json(look_at(database, id), 0));
    else
        context.output.line(id);
    flush_output(); // a signal that came ends us after it
    return status;
}

int
run_replays_list(const Context &context, const ReplayOptions &options)
{
    Database database = open_outbox(context);
    require_subscription(database, options.subscription);
    const Rows rows =
        database.query(std::string(kColumns) + "where $2::text is null or f.subscription = $2 "
                                               "order by f.requested_at desc limit $1::int + 1",
                       {std::to_string(options.limit), options.subscription});
    const int count = std::min(rows.count(), options.limit);
    if (context.output.json())
    {
        Json json = {{"replays", Json::array()}, {"more", rows.count() > count}};
        for (int row = 0; row < count; row++)
            json["replays"].push_back(to_json(rows, row));
        context.output.document(json);
        return kOk;
    }
    if (count == 0)
        context.output.line("There were no replays.");
    if (count == 0)
        return kOk;
    Table table({{"ID"},
                 {"STATE"},
                 {"DONE", Table::Align::kRight},
                 {"OF", Table::Align::kRight},
                 {"ASKED FOR"},
                 {"BY"}});
    for (int row = 0; row < count; row++)
        table.add({{rows.value(row, "replay_id"), Style::kBold},
                   lower(rows.value(row, "state")),
                   with_commas(rows.number(row, "published").value_or(0)),
                   with_commas(rows.number(row, "total").value_or(0)),
                   human_duration(rows.real(row, "age").value_or(0)) + " ago",
                   printable(rows.value(row, "requested_by"))});
    const std::vector<std::string> lines = table.lines(context.output);
    context.output.line(lines[0]);
    for (int row = 0; row < count; row++)
    {
        context.output.line(lines[static_cast<std::size_t>(row) + 1]);
        const Text error = rows.text(row, "last_error");
        context.output.line("  " + context.output.styled(printable(choice_of(rows, row) +
                                                                   (error ? ": " + *error : "")),
                                                         Style::kFaint));
    }
    if (rows.count() > count)
        context.output.line(
            fmt::format("\nThere are more; --limit shows more than {}.", options.limit));
    return kOk;
}

int
run_replays_cancel(const Context &context, const ReplayOptions &options)
{
    Database database = open_outbox(context);
    const bool changed =
        database
            .change("the replay is cancelled", "select outbox.cancel_replay($1::uuid) as changed",
                    {options.id})
            .flag(0, "changed");
    if (context.output.json())
        context.output.document({{"replay_id", options.id}, {"changed", changed}});
    else
        context.output.line(printable(options.id) +
                            (changed ? "  is cancelled" : "  had ended before"));
    return kOk;
}

} // namespace outbox::ctl
