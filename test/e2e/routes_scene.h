// A database, its topics and a reader of them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "servers.h"

namespace outbox::test
{

using Headers = std::vector<std::pair<std::string, std::optional<std::string>>>;

constexpr auto kRouteLimit = std::chrono::seconds(30);

struct RoutesScene
{
    explicit RoutesScene(std::vector<std::string> suffixes)
        : database(cluster()), db(database.connect()), topics(std::move(suffixes))
    {
        for (std::string &topic : topics)
        {
            topic = database.name() + "." + topic;
            kafka().create_topic(topic);
        }
        topics.push_back(database.topic());
        kafka().create_topic(database.topic());
        consumer = std::make_unique<Consumer>(kafka().bootstrap(), topics);
    }

    void route(const std::string &event_type, const std::string &topic,
               const std::string &headers = "")
    {
        db.exec("insert into outbox.routes (aggregate_type, event_type, topic, headers_format) "
                "values ($1, $2, $3, nullif($4, '')) on conflict (aggregate_type, event_type) "
                "do update set topic = excluded.topic, headers_format = excluded.headers_format",
                database.type(), event_type, topic, headers);
    }

    std::string emit(const std::string &event_type, const std::string &rest = "'{}'")
    {
        return db.value("select outbox.emit($1, 'k', $2, " + rest + ")", database.type(),
                        event_type);
    }

    // The record that is read next.
    Record next()
    {
        const size_t expected = ++expected_;
        if (!consumer->read_count(expected, kRouteLimit))
            throw std::runtime_error("the event did not arrive: " +
                                     db.value("select r::text from outbox.relay_status r"));
        return consumer->records()[expected - 1];
    }

    Headers debezium_headers(const std::string &id)
    {
        const Result row = created(id);
        return {{"id", id},
                {"event_type", row.text(0, 0)},
                {"aggregate_type", database.type()},
                {"created_at", row.text(0, 1)}};
    }

    Headers cloudevents_headers(const std::string &id, const std::string &source)
    {
        const Result row = created(id);
        return {{"ce_specversion", "1.0"},
                {"ce_id", id},
                {"ce_source", source},
                {"ce_type", row.text(0, 0)},
                {"ce_time", row.text(0, 1)},
                {"ce_subject", "k"},
                {"ce_aggregatetype", database.type()}};
    }

    Result created(const std::string &id)
    {
        return db.exec("select event_type, to_char(created_at at time zone 'UTC', "
                       "'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') from outbox.events where id = $1",
                       id);
    }

    TestDatabase database;
    Db db;
    std::vector<std::string> topics;
    std::unique_ptr<Consumer> consumer;

private:
    size_t expected_ = 0;
};

inline Headers
operator+(Headers a, const Headers &b)
{
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

} // namespace outbox::test
