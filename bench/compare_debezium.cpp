#include "compare_debezium.h"

#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

#include "peers/debezium.h"
#include "support/consumer.h"
#include "support/servers.h"
#include "support/tree.h"
#include "support/workspace.h"

namespace outbox::bench
{

namespace
{

// Expressions of SQL. What each is about is to be seen in it.
constexpr const char *kPayloads[] = {
    R"('{"a": {"b": [1, {"c": []}, null, true]}, "d": {}}'::jsonb)",
    R"('{"b": 1, "a": 2,"a":3}'::jsonb)",
    R"('"text alone"'::jsonb)",
    R"('12'::jsonb)",
    R"('null'::jsonb)",
    R"('true'::jsonb)",
    R"('[]'::jsonb)",
    R"('{}'::jsonb)",
    R"('""'::jsonb)",
    R"('[1, "two", [3], {"four": 4}]'::jsonb)",
    R"('{"n": 123456789012345678901234567890.000123456789, "tiny": 1e-400, "huge": 1e400}'::jsonb)",
    R"('{"zeros": 1.500, "minus": -0.0, "int": 9007199254740993}'::jsonb)",
    R"('{"greek": "αβγ", "emoji": "😀", "escaped": "\u00e9\ud83d\ude00"}'::jsonb)",
    R"('{"escapes": "quote \" backslash \\ tab \t newline \n bell \u0007 slash \/ del \u007f"}'::jsonb)",
    R"(jsonb_build_object('long', repeat('0123456789', 20000)))",
    R"('  {"spaces" :   1 }  '::jsonb)",
    "null::jsonb",
};
constexpr const char *kKeys[] = {"plain", "with space", "schlüssel", "😀", "quote\"'\\", "0"};

Properties
shipped_properties()
{
    std::istringstream lines(test::read_file(test::in_source("docs/debezium.properties")));
    Properties all;
    for (std::string line; std::getline(lines, line);)
        if (const size_t equals = line.find('='); !line.empty() && line[0] != '#')
            all[line.substr(0, equals)] = line.substr(equals + 1);
    return all;
}

int
emit_all(test::Db &db, const std::string &type)
{
    int events = 0;
    for (const char *payload : kPayloads)
    {
        const char *key = kKeys[static_cast<size_t>(events++) % std::size(kKeys)];
        db.exec(fmt::format("select outbox.emit($1, $2, 'compared', {})", payload), type, key);
    }
    // A plain INSERT, too.
    db.exec("insert into outbox.events (aggregate_type, aggregate_id, event_type, payload) "
            "values ($1, 'inserted', 'compared', '{\"plain\": 1}')",
            type);
    db.exec("insert into outbox.events (aggregate_type, aggregate_id, event_type, payload, "
            "created_at) values ($1, 'inserted', 'compared', '{\"time\": 1}', "
            "'2026-01-31 10:05:00.12+01'), ($1, 'inserted', 'compared', '{\"time\": 2}', "
            "'2026-01-31 10:05:00+01')",
            type);
    return events + 3;
}

// What docs/debezium.md lists. Each is looked at, so that the list stays true.
struct Difference
{
    const char *about;
    const char *columns; // of an INSERT besides the aggregate and the event's type
    const char *values;
    std::function<bool(const test::Record &relay, const test::Record &debezium)> holds;
};

const std::vector<Difference> &
differences()
{
    using test::Record;
    static const std::vector<Difference> all = {
        {"a payload of bytes is null for Debezium", "payload_bytes", R"('\x00ff')",
         [](const Record &relay, const Record &debezium)
         { return relay.value == std::string("\0\xff", 2) && !debezium.value; }},
        {"partition_key is no key for Debezium", "payload, partition_key", "'{}', 'of its own'",
         [](const Record &relay, const Record &debezium)
         { return relay.key == "of its own" && debezium.key == "different"; }},
        {"headers are left out by Debezium", "payload, headers", R"('{}', '{"trace": "1"}')",
         [](const Record &relay, const Record &debezium)
         { return relay.header("trace") == "1" && !debezium.header("trace"); }},
        {"schema_version is left out by Debezium", "payload, schema_version", "'{}', 3",
         [](const Record &relay, const Record &debezium)
         { return relay.header("schema_version") == "3" && !debezium.header("schema_version"); }},
    };
    return all;
}

// Returns the events' ids.
std::vector<std::string>
insert_different(test::Db &db, const std::string &type)
{
    std::vector<std::string> ids;
    for (const Difference &difference : differences())
        ids.push_back(db.value(
            fmt::format("insert into outbox.events (aggregate_type, aggregate_id, event_type, {}) "
                        "values ($1, 'different', 'compared', {}) returning id",
                        difference.columns, difference.values),
            type));
    return ids;
}

std::map<std::string, test::Record>
records_by_id(Servers &servers, const std::string &topic, int events)
{
    test::Consumer consumer(servers.kafka.bootstrap(), {topic});
    if (!consumer.read_count(static_cast<size_t>(events), std::chrono::seconds(60)))
        throw std::runtime_error(
            fmt::format("{} of {} records in {}", consumer.records().size(), events, topic));
    std::map<std::string, test::Record> records;
    for (const test::Record &record : consumer.records())
        records[record.header("id").value_or("(none)")] = record;
    return records;
}

std::string
shown(const std::optional<std::string> &value)
{
    constexpr size_t kEnough = 100;
    return value ? value->substr(0, kEnough) : "(null)";
}

// Prints the difference in one of a record's parts.
bool
same(const char *part, const test::Record &ours, const std::optional<std::string> &relay,
     const std::optional<std::string> &debezium)
{
    if (relay == debezium)
        return true;
    std::cout << fmt::format("{} of {}: relay {}, Debezium {}\n", part, shown(ours.value),
                             shown(relay), shown(debezium));
    return false;
}

bool
same_record(const test::Record &relay, const test::Record &debezium)
{
    bool all = same("key", relay, relay.key, debezium.key);
    all &= same("value", relay, relay.value, debezium.value);
    all &= same("partition", relay, std::to_string(relay.partition),
                std::to_string(debezium.partition));
    for (const char *header : {"id", "event_type", "aggregate_type", "created_at"})
        all &= same(header, relay, relay.header(header), debezium.header(header));
    return all;
}

bool
holds(const Difference &difference, const test::Record &relay, const test::Record &debezium)
{
    const bool still = difference.holds(relay, debezium);
    std::cout << (still ? "as listed: " : "no longer so: ") << difference.about << "\n";
    return still;
}

} // namespace

bool
compare_with_debezium()
{
    std::cerr << "starting PostgreSQL, Kafka and Debezium ...\n";
    Servers servers;
    const LogicalDecoding logical_decoding(servers);
    Database database(servers, "compared");
    const Topic topic(servers.kafka, "debezium." + database.type());
    test::Db db = database.connect();
    db.exec("create publication outbox_debezium for table outbox.events "
            "with (publish = 'insert', publish_via_partition_root = true)");
    Properties properties = shipped_properties();
    properties["transforms.outbox.route.topic.replacement"] = "debezium.${routedByValue}";
    properties["poll.interval.ms"] = "10";
    const Debezium debezium(servers, database, properties);

    const int equal = emit_all(db, database.type());
    const std::vector<std::string> listed = insert_different(db, database.type());
    const int events = equal + static_cast<int>(listed.size());
    database.start_relay();
    const auto ours = records_by_id(servers, database.topic(), events);
    const auto theirs = records_by_id(servers, topic.name(), events);
    int wrong = 0;
    for (const auto &[id, record] : ours)
    {
        const auto found = theirs.find(id);
        if (found == theirs.end())
        {
            std::cout << "Debezium has no record of " << id << "\n";
            wrong++;
            continue;
        }
        const auto place = std::find(listed.begin(), listed.end(), id);
        if (place == listed.end())
            wrong += same_record(record, found->second) ? 0 : 1;
        else
            wrong += holds(differences().at(static_cast<size_t>(place - listed.begin())), record,
                           found->second)
                         ? 0
                         : 1;
    }
    std::cout << fmt::format("{} events compared, {} of them with a listed difference; {} wrong\n",
                             events, listed.size(), wrong);
    return wrong == 0 && ours.size() == theirs.size();
}

} // namespace outbox::bench
