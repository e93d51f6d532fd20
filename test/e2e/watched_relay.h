// A database of its own, whose relay is watched while something is in its way.
#pragma once

#include <memory>
#include <string>

#include "faults.h"

namespace outbox::test
{

// With ten events that are published.
struct WatchedRelay
{
    WatchedRelay() : database(cluster())
    {
        kafka().create_topic(database.topic());
        db = std::make_unique<Db>(database.connect());
        emit(10);
        EXPECT_EQ(db->value("select outbox.drain('20 s')"), "t");
        relay = database.relay_pid();
    }

    void emit(int count)
    {
        for (int i = 0; i < count; ++i)
            db->exec("select outbox.emit($1, $2, 'e', '{}')", database.type(),
                     "key-" + std::to_string(i % 3));
    }

    std::string last_error()
    {
        return db->value("select coalesce(last_error, '') from outbox.relay_status");
    }

    bool says(const std::string &text)
    {
        return wait_until(std::chrono::seconds(20),
                          [&] { return last_error().find(text) != std::string::npos; });
    }

    bool forgets(const std::string &text)
    {
        return wait_until(std::chrono::seconds(20),
                          [&] { return last_error().find(text) == std::string::npos; });
    }

    // Everything arrives, each event once, and the relay is still the same.
    void expect_each_once()
    {
        Consumer consumer(kafka().bootstrap(), {database.topic()});
        const Report report = check_delivery(*db, consumer);
        EXPECT_TRUE(report.exact()) << report.summary();
    }

    TestDatabase database;
    std::unique_ptr<Db> db;
    pid_t relay = 0;
};

} // namespace outbox::test
