// A ring that turns every few hundred milliseconds, and applications that write to it.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "ring.h"
#include "servers.h"

namespace outbox::test
{

// A turn of the ring takes a sixth of that.
inline const Settings kShortRetention = {{"outbox.retention", "1s"},
                                         {"outbox.backoff_initial", "100ms"},
                                         {"outbox.backoff_max", "300ms"}};

constexpr auto kLong = std::chrono::seconds(8);

// Applications that remember themselves what they emitted: outbox.events does not for long.
class Emitters
{
public:
    Emitters(const TestDatabase &database, int clients) : database_(database)
    {
        database_.connect().exec(
            "create table if not exists emitted (n bigserial primary key, id uuid, key text, "
            "payload text, at timestamptz default clock_timestamp())");
        for (int i = 0; i < clients; ++i)
            threads_.emplace_back([this, i] { run(i); });
    }
    ~Emitters() { finish(); }
    Emitters(const Emitters &) = delete;
    Emitters &operator=(const Emitters &) = delete;

    void finish()
    {
        stopping_ = true;
        for (std::thread &thread : threads_)
            thread.join();
        threads_.clear();
    }

    Milliseconds slowest() const { return Milliseconds(slowest_); }

private:
    void run(int client)
    {
        try
        {
            Db db = database_.connect();
            for (int n = 0; !stopping_; ++n)
            {
                const auto start = Clock::now();
                db.exec("with e as (select outbox.emit($1, $2, 'e', to_jsonb($3::int)) as id) "
                        "insert into emitted (id, key, payload) select e.id, $2, $3 from e",
                        database_.type(), "key-" + std::to_string(client), n);
                long now = static_cast<long>(since(start).count());
                long before = slowest_;
                while (now > before && !slowest_.compare_exchange_weak(before, now))
                    ;
            }
        }
        catch (const std::exception &error)
        {
            ADD_FAILURE() << "client " << client << ": " << error.what();
        }
    }

    const TestDatabase &database_;
    std::atomic<bool> stopping_{false};
    std::atomic<long> slowest_{0};
    std::vector<std::thread> threads_;
};

// As check_delivery(), for events that are not in outbox.events any more.
inline Report
check_emitted(Db &db, const TestDatabase &database, Consumer &consumer)
{
    std::vector<Event> events;
    std::unordered_set<std::string> missing;
    const Result rows = db.exec("select n, id, key, payload from emitted order by n");
    for (int row = 0; row < rows.rows(); ++row)
    {
        events.push_back({std::stoll(rows.text(row, 0)), rows.text(row, 1), database.topic(),
                          rows.text(row, 2), rows.text(row, 3)});
        missing.insert(events.back().id);
    }
    size_t looked_at = 0;
    const auto all_there = [&](const std::vector<Record> &records)
    {
        for (; looked_at < records.size(); ++looked_at)
            missing.erase(records[looked_at].header("id").value_or(""));
        return missing.empty();
    };
    consumer.read_until(kLong, all_there);
    consumer.read_for(Milliseconds(300));
    return compare(events, deliveries(consumer.records()));
}

inline long
truncations(Db &db, const std::string &table = "%")
{
    return std::stol(db.value("select sum(done_total) from outbox.maintenance_status where task = "
                              "'truncation' and table_name like $1",
                              table));
}

inline bool
turns_on(Db &db, int more, Milliseconds limit = kLong)
{
    const long before = turns(db);
    return wait_until(limit, [&] { return turns(db) >= before + more; });
}

inline std::string
table_of(Db &db, const std::string &id)
{
    return db.value("select tableoid::regclass::text from outbox.events where id = $1", id)
        .substr(sizeof("outbox.") - 1);
}

inline bool
is_held_back_by(Db &db, const std::string &table, const std::string &reason)
{
    return wait_until(kLong,
                      [&]
                      {
                          return db.value("select exists (select from outbox.maintenance_status "
                                          "where table_name = $1 and held_back_by like $2 and "
                                          "held_back_since <= now())",
                                          table, reason) == "t";
                      });
}

} // namespace outbox::test
