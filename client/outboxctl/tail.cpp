// outboxctl tail
#include "commands.h"

#include "errors.h"
#include "kafka_client.h"
#include "standard_output.h"
#include "topic_pattern.h"
#include "units.h"

#include <fmt/format.h>

#include <ctime>
#include <limits>
#include <set>

namespace outbox::ctl
{

namespace
{

constexpr auto kRead = Milliseconds(100);
constexpr auto kAsk = Milliseconds(2000);       // for one answer of Kafka
constexpr auto kLookAgain = Milliseconds(2000); // for new topics and partitions
constexpr const char *kDefaultTemplate = "outbox.event.{aggregate_type}";

// Shown by themselves, or the same on every event of a topic.
const std::set<std::string> kOwnHeaders = {
    "id",      "event_type", "aggregate_type",   "created_at", "ce_id",         "ce_type",
    "ce_time", "ce_source",  "ce_aggregatetype", "ce_subject", "ce_specversion"};

// As Debezium's outbox event router names it, or else as CloudEvents do.
std::optional<std::string>
header_of(const KafkaRecord &record, const char *name, const char *cloudevents_name)
{
    const std::optional<std::string> value = record.header(name);
    return value ? value : record.header(cloudevents_name);
}

// Producers may have written any number; one that no calendar holds is shown as a number.
std::string
time_text(long long milliseconds, tm *(*calendar)(const std::time_t *, tm *), const char *between,
          const char *zone)
{
    const long long rest = (milliseconds % 1000 + 1000) % 1000;
    const auto seconds = static_cast<std::time_t>((milliseconds - rest) / 1000);
    tm parts = {};
    if (milliseconds < std::numeric_limits<long long>::min() + 1000 ||
        calendar(&seconds, &parts) == nullptr)
        return std::to_string(milliseconds);
    const long long year = parts.tm_year + 1900LL;
    return fmt::format("{}{:04}-{:02}-{:02}{}{:02}:{:02}:{:02}.{:03}{}", year < 0 ? "-" : "",
                       year < 0 ? -year : year, parts.tm_mon + 1, parts.tm_mday, between,
                       parts.tm_hour, parts.tm_min, parts.tm_sec, rest, zone);
}

std::string
local_time(long long milliseconds)
{
    return time_text(milliseconds, &localtime_r, " ", "");
}

std::string
utc_time(long long milliseconds)
{
    return time_text(milliseconds, &gmtime_r, "T", "Z");
}

Json
to_json(const KafkaRecord &record)
{
    Json headers = Json::object();
    for (const auto &[name, value] : record.headers)
        if (!headers.contains(name))
            headers[name] = or_null(value);
    Json json = {
        {"topic", record.topic},
        {"partition", record.partition},
        {"offset", record.offset},
        {"timestamp", record.timestamp_ms ? Json(utc_time(*record.timestamp_ms)) : Json()},
        {"key", !record.key || is_utf8(*record.key) ? or_null(record.key) : Json()},
        {"key_base64", record.key && !is_utf8(*record.key) ? Json(to_base64(*record.key)) : Json()},
        {"id", or_null(header_of(record, "id", "ce_id"))},
        {"aggregate_type", or_null(header_of(record, "aggregate_type", "ce_aggregatetype"))},
        {"event_type", or_null(header_of(record, "event_type", "ce_type"))},
        {"headers", std::move(headers)}};
    const bool text = record.value && is_utf8(*record.value);
    json["payload"] = text ? Json(*record.value) : Json();
    json["payload_base64"] = record.value && !text ? Json(to_base64(*record.value)) : Json();
    return json;
}

void
print(const Output &output, const KafkaRecord &record)
{
    const std::string time = record.timestamp_ms ? local_time(*record.timestamp_ms) : "-";
    output.line(fmt::format(
        "{}  {}  key {}  {}", output.styled(time, Style::kFaint),
        output.styled(
            printable(header_of(record, "event_type", "ce_type").value_or("(no event_type)")),
            Style::kBold),
        output.styled(record.key ? printable(*record.key) : "NULL", Style::kBold),
        output.styled(fmt::format("{} partition {} offset {}", printable(record.topic),
                                  record.partition, record.offset),
                      Style::kFaint)));
    std::string headers = "  id=" + printable(header_of(record, "id", "ce_id").value_or("(none)"));
    for (const auto &[name, value] : record.headers)
        if (kOwnHeaders.count(name) == 0)
            headers += "  " + printable(name + "=" + value.value_or("NULL"));
    output.line(output.styled(headers, Style::kFaint));
    output.line("  " + (record.value ? printable(*record.value)
                                     : output.styled("(tombstone)", Style::kFaint)));
}

class Tail
{
public:
    Tail(const Context &context, const TailOptions &options, const KafkaSource &source,
         std::optional<TopicPattern> pattern)
        : context_(context), options_(options), pattern_(std::move(pattern)), client_(source),
          wanted_(options.topics.begin(), options.topics.end()), bootstrap_(source.bootstrap)
    {
    }

    // Returns when enough was shown, throws Interrupted for Ctrl-C.
    void go_on()
    {
        while (!done())
        {
            if (Clock::now() >= next_look_)
                look();
            read();
            if (wait_for(-1, 0, Clock::now()) == Woken::kStop)
                stop_here();
        }
    }

private:
    bool done() const { return options_.count && shown_ >= *options_.count; }

    void look()
    {
        next_look_ = Clock::now() + kLookAgain;
        const std::optional<ClusterView> view = client_.look(kAsk);
        if (!view)
        {
            const std::string &why = client_.last_trouble();
            report(fmt::format("Kafka at {} cannot be reached, trying again{}",
                               printable(bootstrap_), why.empty() ? "" : ": " + printable(why)));
            client_.forget_trouble();
            return;
        }
        bool all = true;
        for (const auto &[name, topic] : view->topics)
            if (pattern_ ? pattern_->matches(name) : wanted_.count(name) > 0)
                all = follow(topic) && all;
        first_look_ = first_look_ && !all;
        if (all)
            tell_topics();
    }

    // What comes into being later is new from its first record on.
    bool follow(const TopicView &topic)
    {
        const bool begun = following_.count(topic.name) > 0;
        if (!client_.follow(topic, options_.from_beginning || begun || !first_look_, kAsk))
            return false;
        following_.insert(topic.name);
        return true;
    }

    void tell_topics()
    {
        std::string names;
        for (const std::string &name : following_)
            names += (names.empty() ? "" : ", ") + printable(name);
        if (!names.empty())
            report(fmt::format("following {} at {}", names, printable(bootstrap_)));
        else
            report(fmt::format("waiting for a topic {} at {}",
                               printable(pattern_ ? pattern_->shown() : *wanted_.begin()),
                               printable(bootstrap_)));
    }

    void read()
    {
        // Many at a time, so that looking for signals costs nothing.
        for (int i = 0; i < 200 && !done(); i++)
            if (!client_.read(
                    i == 0 ? kRead : Milliseconds(0),
                    [&](const KafkaRecord &record) { show(record); },
                    [&](const std::string &topic, const std::string &error)
                    { report(printable((topic.empty() ? "Kafka" : topic) + ": " + error)); }))
                break;
        flush_output();
    }

    void show(const KafkaRecord &record)
    {
        if (context_.output.json())
            context_.output.line(to_line(to_json(record)));
        else
            print(context_.output, record);
        shown_++;
    }

    // Each only when it is another than before: trouble that lasts is reported once.
    void report(const std::string &text)
    {
        if (text != told_)
            Output::remark(text);
        told_ = text;
    }

    const Context &context_;
    const TailOptions &options_;
    const std::optional<TopicPattern> pattern_;
    KafkaClient client_;
    const std::set<std::string> wanted_;
    const std::string bootstrap_;
    std::set<std::string> following_;
    std::string told_;
    Clock::time_point next_look_ = Clock::now();
    bool first_look_ = true;
    long long shown_ = 0;
};

std::string
template_of(Database &database, const std::optional<std::string> &subscription)
{
    const Text own =
        subscription && *subscription != "default"
            ? database
                  .query("select options ->> 'topic_template' as own from outbox.subscriptions "
                         "where name = $1",
                         {*subscription})
                  .raw(0, "own")
            : std::nullopt;
    if (own)
        return *own;
    const std::map<std::string, std::string> settings = outbox_settings(database);
    const auto found = settings.find("outbox.topic_template");
    return found == settings.end() ? kDefaultTemplate : found->second;
}

} // namespace

int
run_tail(const Context &context, const TailOptions &options)
{
    // With brokers and topics there is nothing to ask the database for.
    std::optional<KafkaSource> source;
    std::optional<TopicPattern> pattern;
    if (!options.kafka.bootstrap.empty() && !options.topics.empty())
        source = find_kafka(options.kafka, nullptr);
    else
    {
        Database database = open_outbox(context);
        source = find_kafka(options.kafka, &database);
        if (options.topics.empty())
            pattern.emplace(template_of(database, options.kafka.subscription));
    }
    for (const std::string &note : source->notes)
        Output::remark(printable(source->masked(note)));
    const Interrupts interrupts(Interrupts::Output::kWatched);
    try
    {
        Tail(context, options, *source, std::move(pattern)).go_on();
    }
    catch (const Interrupted &)
    {
        return options.count ? kInterrupted : kOk;
    }
    return kOk;
}

} // namespace outbox::ctl
