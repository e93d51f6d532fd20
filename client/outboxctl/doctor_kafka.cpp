// What doctor asks Kafka.
#include "doctor.h"

#include "errors.h"
#include "kafka_client.h"
#include "relay_view.h"
#include "units.h"

#include "extension/core/topic_template.h"

#include <fmt/format.h>

#include <array>
#include <set>

namespace outbox::ctl
{

namespace
{

constexpr auto kLimit = Milliseconds(5000);
constexpr const char *kDefaultTemplate = "outbox.event.{aggregate_type}";
constexpr int kRecentEvents = 10000;    // whose topics must be there
constexpr std::size_t kMostTopics = 50; // named one by one when all is well with them

// The topics that the last events go to. Throws Error when this role may not read them.
std::set<std::string>
recent_topics(Database &database, const std::string &topic_template)
{
    std::set<std::string> topics;
    TopicTemplate compiled;
    if (!compiled.compile(topic_template).ok)
        return topics;
    const Rows rows =
        database.query("select distinct l.aggregate_type, l.event_type from (select "
                       "e.aggregate_type, e.event_type "
                       "from outbox.events e order by e.xid desc, e.seq desc limit $1::int) l",
                       {std::to_string(kRecentEvents)});
    for (int row = 0; row < rows.count(); row++)
    {
        std::array<char, kMaxTopicLength> name = {};
        const TopicName expanded =
            compiled.expand(rows.raw(row, "aggregate_type").value_or(""),
                            rows.raw(row, "event_type").value_or(""), name.data(), name.size());
        if (expanded.error == nullptr)
            topics.emplace(name.data(), expanded.length);
    }
    return topics;
}

void
examine_topic(const TopicView &topic, int brokers, Findings &findings)
{
    const std::string shape =
        fmt::format("{}: {}, {}", topic.name, counted(topic.partitions, "partition"),
                    counted(topic.fewest_replicas, "replica"));
    if (!topic.error.empty())
        findings.add("kafka", Level::kProblem, topic.name + ": " + topic.error,
                     "Make it, or let this user describe it.");
    else if (topic.without_leader > 0)
        findings.add("kafka", Level::kProblem,
                     fmt::format("{}, {} without a leader", shape, topic.without_leader),
                     "Check the brokers: nothing can be published there now.");
    else if (topic.fewest_in_sync < topic.fewest_replicas)
        findings.add("kafka", Level::kWarning,
                     fmt::format("{}, only {} in sync", shape, topic.fewest_in_sync),
                     "See to the brokers that are behind or gone.");
    else if (brokers > 1 && topic.fewest_replicas < 2)
        findings.add("kafka", Level::kWarning, shape + ": with its broker its events are gone",
                     "Give it three replicas, and min.insync.replicas=2.");
    else
        findings.add("kafka", Level::kOk, shape);
}

void
examine_topics(Database &database, bool extension, const ClusterView &view, Findings &findings)
{
    const std::map<std::string, std::string> settings = outbox_settings(database);
    const auto found = settings.find("outbox.topic_template");
    const std::string topic_template = found == settings.end() ? kDefaultTemplate : found->second;
    const TopicPattern pattern(topic_template);
    std::size_t count = 0;
    for (const auto &[name, topic] : view.topics)
        if (pattern.matches(name) && count++ < kMostTopics)
            examine_topic(topic, view.brokers, findings);
    if (count == 0)
        findings.add("kafka", Level::kNote, "there is no topic " + pattern.shown() + " yet");
    if (count > kMostTopics)
        findings.add("kafka", Level::kNote,
                     fmt::format("{} more topics are not listed", count - kMostTopics));
    if (!extension)
        return;
    if (!may_select(database, "outbox.events", {"xid", "seq", "aggregate_type", "event_type"}))
    {
        findings.add("kafka", Level::kUnknown,
                     "this role may not read outbox.events, so it is not known which topics are "
                     "needed");
        return;
    }
    for (const std::string &name : recent_topics(database, topic_template))
        if (view.topics.count(name) == 0)
            findings.add("kafka", Level::kWarning,
                         "events go to the topic " + name + ", which does not exist",
                         "Create it, or set auto.create.topics.enable on the brokers.");
}

// Of a role that may not see it, nothing is known.
bool
needs_no_kafka(Database &database)
{
    try
    {
        return look_at_relay(database).state == "detached";
    }
    catch (const ConnectionError &)
    {
        throw;
    }
    catch (const Error &)
    {
        return false;
    }
}

} // namespace

void
examine_kafka(Database &database, bool extension, const KafkaOptions &options, Findings &findings)
{
    if (extension && options.bootstrap.empty() && needs_no_kafka(database))
    {
        findings.add("kafka", Level::kOk, "default is detached, so there need be no Kafka");
        return;
    }
    const KafkaSource source = find_kafka(options, &database);
    for (const std::string &note : source.notes)
        findings.add("kafka", Level::kNote, source.masked(note));
    KafkaClient client(source);
    const std::optional<ClusterView> view = client.look(kLimit);
    if (!view)
    {
        const std::string &why = client.last_trouble();
        findings.add(
            "kafka", Level::kProblem,
            fmt::format("{} cannot be reached from here{}", source.bootstrap,
                        why.empty() ? "" : ": " + why),
            "See to the brokers and the way to them; the relay's way starts at the server, "
            "and status shows what it meets.");
        return;
    }
    findings.add("kafka", Level::kOk,
                 fmt::format("{} answers from here, {}", source.bootstrap,
                             counted(view->brokers, "broker")));
    examine_topics(database, extension, *view, findings);
}

} // namespace outbox::ctl
