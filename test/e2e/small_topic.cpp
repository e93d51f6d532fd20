#include "small_topic.h"

#include <algorithm>
#include <set>

#include "support/kafka_admin.h"

namespace outbox::test
{

namespace
{

// The settings have to be there before the relay is.
void
prepare(const TestDatabase &database, const Settings &settings)
{
    Settings all = {{"outbox.backoff_initial", "50ms"},
                    {"outbox.backoff_max", "200ms"},
                    {"outbox.max_attempts", "3"}};
    for (const auto &[name, value] : settings)
        all[name] = value;
    Db db = database.connect();
    for (const auto &[name, value] : all)
        db.exec("alter database " + database.name() + " set " + name + " = '" + value + "'");
    db.exec("create extension outbox");
}

std::string
make_topic(const std::string &topic, int partitions, int max_message_bytes)
{
    kafka().create_topic(topic, partitions,
                         {{"max.message.bytes", std::to_string(max_message_bytes)}});
    return topic;
}

} // namespace

SmallTopic::SmallTopic(PgCluster &server, const Settings &settings, int partitions,
                       int max_message_bytes)
    : server_(server), database_(server, TestDatabase::Extension::kNotInstalled),
      max_message_bytes_(max_message_bytes),
      topic_(make_topic(database_.topic(), partitions, max_message_bytes)),
      consumer_(kafka().bootstrap(), {topic_}),
      db_((prepare(database_, settings), database_.connect()))
{
}

std::string
SmallTopic::emit(const std::string &key)
{
    return db_.value("select outbox.emit($1, $2, 'good', '{}')", database_.type(), key);
}

std::string
SmallTopic::emit_too_large(const std::string &key)
{
    return db_.value("select outbox.emit($1, $2, 'large', to_jsonb(repeat('x', $3::int)))",
                     database_.type(), key, 2 * max_message_bytes_);
}

Ids
SmallTopic::emit_several(const std::string &key, int count)
{
    return db_.column("select outbox.emit($1, $2, 'good', '{}') from generate_series(1, $3::int)",
                      database_.type(), key, count);
}

void
SmallTopic::raise_limit()
{
    set_topic_config(kafka().bootstrap(), topic_,
                     {{"max.message.bytes", std::to_string(10 * max_message_bytes_)}});
}

std::string
SmallTopic::status(const std::string &id)
{
    return db_.value("select status from outbox.event_status where id = $1", id);
}

bool
SmallTopic::reaches_status(const std::string &id, const std::string &wanted, Milliseconds limit)
{
    return wait_until(limit, [&] { return status(id) == wanted; });
}

int
SmallTopic::deliveries(const std::string &state)
{
    return std::stoi(
        db_.value("select count(*) from outbox.deliveries where state like $1", state));
}

bool
SmallTopic::arrive(const Ids &expected, Milliseconds limit)
{
    std::set<std::string> missing(expected.begin(), expected.end());
    size_t looked_at = 0;
    return consumer_.read_until(limit,
                                [&](const std::vector<Record> &records)
                                {
                                    for (; looked_at < records.size(); ++looked_at)
                                        missing.erase(records[looked_at].header("id").value_or(""));
                                    return missing.empty();
                                });
}

Ids
SmallTopic::arrived(const std::string &key) const
{
    Ids ids;
    for (const Record &record : consumer_.records())
        if (record.key == key)
            ids.push_back(record.header("id").value_or("(no id)"));
    return ids;
}

void
SmallTopic::expect_only(const std::string &key, const Ids &expected)
{
    constexpr auto kAfterwards = Milliseconds(300);
    consumer_.read_for(kAfterwards);
    EXPECT_EQ(arrived(key), expected) << "of key " << key;
}

std::string
SmallTopic::describe()
{
    return db_.value(
        "select (select r::text from outbox.relay_status r) || E'\n' || coalesce(string_agg("
        "d::text, E'\n'), 'no deliveries') from (select seq, lane, topic, partition_key, state, "
        "blocking, attempts, next_attempt_at - clock_timestamp(), last_error from "
        "outbox.deliveries order by seq limit 10) d");
}

std::string
SmallTopic::describe_key(const std::string &key)
{
    constexpr size_t kLog = 4000;
    std::string text;
    for (const Record &record : consumer_.records())
        if (record.key == key)
            text += "offset " + std::to_string(record.offset) + ": " +
                    record.header("event_type").value_or("") + " " +
                    record.header("id").value_or("") + "\n";
    text += db_.value("select string_agg(concat_ws(' ', e.seq, e.id, e.event_type, d), E'\n' "
                      "order by e.seq) from outbox.events e left join outbox.deliveries d on "
                      "d.seq = e.seq where e.aggregate_id = $1",
                      key);
    const std::string log = server_.log_text();
    return text + "\n" + log.substr(log.size() - std::min(log.size(), kLog));
}

Report
SmallTopic::check(const Ids &left_out, Milliseconds limit)
{
    constexpr auto kAfterwards = Milliseconds(300);
    std::vector<Event> events = committed_events(db_);
    const std::set<std::string> settled(left_out.begin(), left_out.end());
    events.erase(std::remove_if(events.begin(), events.end(),
                                [&](const Event &event) { return settled.count(event.id) > 0; }),
                 events.end());
    Ids expected;
    for (const Event &event : events)
        expected.push_back(event.id);
    arrive(expected, limit);
    consumer_.read_for(kAfterwards);
    return compare(events, test::deliveries(consumer_.records()));
}

} // namespace outbox::test
