// outboxctl failed retry, outboxctl failed discard
#include "commands.h"

#include "errors.h"
#include "interrupts.h"
#include "standard_output.h"
#include "subscription_view.h"
#include "terminal.h"
#include "units.h"

#include <fmt/format.h>

#include <functional>

namespace outbox::ctl
{

namespace
{

constexpr const char *kInsufficientPrivilege = "42501";

Json
to_json(const Error &error)
{
    const auto text = [](const std::string &value) { return value.empty() ? Json() : Json(value); };
    return {{"message", error.what()},
            {"detail", text(error.detail())},
            {"hint", text(error.hint())},
            {"sqlstate", text(error.sqlstate())}};
}

struct Outcome
{
    bool changed;
    const char *text;
};

using Settle = std::function<Outcome(const std::string &)>;

// Settles each by itself: one that cannot be settled does not keep the others from it.
class Settling
{
public:
    Settling(const Context &context, const Settle &settle) : context_(context), settle_(settle) {}

    // What ends it before the last one is thrown, after what was done is said.
    int all(const std::vector<std::string> &ids)
    {
        const Interrupts interrupts;
        try
        {
            for (const std::string &id : ids)
                one(id, ids.size() == 1);
        }
        catch (const Ended &)
        {
            tell();
            throw;
        }
        tell();
        flush_output(); // a signal that came ends us after it
        return status_;
    }

private:
    void one(const std::string &id, bool alone)
    {
        try
        {
            const Outcome outcome = settle_(id);
            note_effect(counted(++settled_, "event") + " settled.");
            events_.push_back(
                {{"id", id}, {"ok", true}, {"changed", outcome.changed}, {"error", nullptr}});
            if (!context_.output.json())
                context_.output.line(printable(id) + "  " + outcome.text);
        }
        catch (const ConnectionError &)
        {
            throw;
        }
        catch (const Error &error)
        {
            if ((alone && !context_.output.json()) || error.sqlstate() == kInsufficientPrivilege)
                throw;
            status_ = kFailed;
            events_.push_back(
                {{"id", id}, {"ok", false}, {"changed", false}, {"error", to_json(error)}});
            if (!context_.output.json())
                Output::remark(fmt::format("{} ({})", printable(error.what()), error.sqlstate()));
        }
    }

    void tell() const
    {
        if (context_.output.json() && !events_.empty())
            context_.output.document({{"events", events_}});
    }

    const Context &context_;
    const Settle &settle_;
    Json events_ = Json::array();
    long long settled_ = 0;
    int status_ = kOk;
};

bool
agreed(const Context &context, const FailedOptions &options, long long count)
{
    if (options.yes)
        return true;
    if (!can_ask() || context.output.json())
        throw Error(kUsage,
                    fmt::format("{} would be tried again, which has to be confirmed",
                                counted(count, "event")),
                    "Pass --yes when there is no terminal to confirm on.");
    return ask(fmt::format("Try {} again?", counted(count, "failed event")));
}

int
retry_many(const Context &context, const FailedOptions &options)
{
    Database database = open_outbox(context);
    require_subscription(database, options.subscription);
    const Text seconds = options.since ? Text(std::to_string(*options.since)) : std::nullopt;
    const Rows found =
        database.query("select count(*) as count, min(s.since)::text as since from "
                       "(select now() - make_interval(secs => $3::float8) as since, "
                       "'default'::text as subscription) s "
                       "cross join lateral (select from outbox.dead_letters d "
                       "where ($1::text is null or d.aggregate_type = $1) "
                       "and ($2::text is null or d.event_type = $2) "
                       "and (s.since is null or d.failed_at >= s.since) and subscription = $4) f",
                       {options.aggregate_type, options.event_type, seconds,
                        subscription_or_default(options.subscription)});
    const long long count = found.number(0, "count").value_or(0);
    const bool go = count > 0 && agreed(context, options, count);
    const Interrupts interrupts;
    std::vector<Text> parameters = {options.aggregate_type, options.event_type,
                                    found.raw(0, "since"), std::to_string(count)};
    if (options.subscription)
        parameters.push_back(options.subscription);
    // In one statement: one after the other would find the first again when they fail again.
    const long long done =
        go ? database
                 .change(
                     "the events are tried again",
                     std::string("select outbox.retry_failed($1, $2, $3::timestamptz, $4::int") +
                         (options.subscription ? ", $5) as count" : ") as count"),
                     parameters)
                 .number(0, "count")
                 .value_or(0)
           : 0;
    if (done > 0)
        note_effect(counted(done, "event") + " tried again.");
    if (context.output.json())
        context.output.document({{"matched", count}, {"retried", done}});
    else if (count == 0)
        context.output.line("There are no such events.");
    else
        context.output.line(go ? counted(done, "event") + " tried again now."
                               : "Nothing was done.");
    flush_output();
    return go || count == 0 ? kOk : kInterrupted;
}

} // namespace

int
run_failed_retry(const Context &context, const FailedOptions &options)
{
    const bool selected =
        options.all || options.aggregate_type || options.event_type || options.since;
    if (selected == !options.ids.empty())
        throw Error(kUsage,
                    selected ? "ids and a selection exclude each other"
                             : "which events is not said",
                    "Give ids, or --all, --type, --event-type or --since.");
    if (selected)
        return retry_many(context, options);
    Database database = open_outbox(context);
    const Settle retry = [&](const std::string &id)
    {
        const bool changed =
            (options.subscription
                 ? database.change("event " + id + " is tried again",
                                   "select outbox.retry($1::uuid, $2) as changed",
                                   {id, options.subscription})
                 : database.change("event " + id + " is tried again",
                                   "select outbox.retry($1::uuid) as changed", {id}))
                .flag(0, "changed");
        return Outcome{changed,
                       changed ? "is tried again now" : "was being retried anyway; now at once"};
    };
    return Settling(context, retry).all(options.ids);
}

int
run_failed_discard(const Context &context, const FailedOptions &options)
{
    Database database = open_outbox(context);
    const Settle discard = [&](const std::string &id)
    {
        const bool changed =
            (options.subscription
                 ? database.change("event " + id + " is discarded",
                                   "select outbox.discard($1::uuid, $2, $3) as changed",
                                   {id, options.reason, options.subscription})
                 : database.change("event " + id + " is discarded",
                                   "select outbox.discard($1::uuid, $2) as changed",
                                   {id, options.reason}))
                .flag(0, "changed");
        return Outcome{changed, changed ? "is discarded" : "was discarded before"};
    };
    return Settling(context, discard).all(options.ids);
}

} // namespace outbox::ctl
