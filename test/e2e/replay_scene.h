// A database whose events are replayed, and who reads them.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "servers.h"

namespace outbox::test
{

using Records = std::vector<Record>;

constexpr auto kLong = std::chrono::seconds(30);

// Events of one database in Kafka, and what of them came by a replay.
class ReplayScene
{
public:
    explicit ReplayScene(PgCluster &server) : database_(server)
    {
        kafka().create_topic(database_.topic());
        consumer_ = std::make_unique<Consumer>(kafka().bootstrap(),
                                               std::vector<std::string>{database_.topic()});
    }

    const TestDatabase &database() const { return database_; }
    Db &db() { return db_; }
    Consumer &consumer() { return *consumer_; }
    void connect_again() { db_ = database_.connect(); }
    void leave() { db_ = Db(cluster(), "postgres"); }

    // Events of some keys, in their order, once they are published.
    std::vector<std::string> emit(int count, int keys = 3)
    {
        const auto ids = emit_only(count, keys);
        EXPECT_EQ(db_.value("select outbox.drain('30 s')"), "t");
        return ids;
    }
    std::vector<std::string> emit_only(int count, int keys = 3)
    {
        return db_.column("select outbox.emit($1, 'k' || n % $3::int, 'e', jsonb_build_object('n', "
                          "n, 'x', 1.50)) from generate_series(1, $2::int) n",
                          database_.type(), count, keys);
    }

    // Arguments as in "max_count => 5, rate_per_second => 10".
    std::string replay(const std::string &arguments)
    {
        return db_.value("select outbox.replay($1, " + arguments + ", dry_run => false)",
                         database_.type());
    }

    std::string column(const std::string &replay, const std::string &name)
    {
        return db_.exec("select " + name + " from outbox.replays where replay_id = $1", replay)
            .field(0)
            .value_or("");
    }
    int number(const std::string &replay, const std::string &name)
    {
        return std::stoi(column(replay, name));
    }
    bool reaches(const std::string &replay, const std::string &state, Milliseconds limit = kLong)
    {
        return wait_until(limit, [&] { return column(replay, "state") == state; });
    }
    bool publishes(const std::string &replay, int count)
    {
        return wait_until(kLong, [&] { return number(replay, "published") >= count; });
    }

    // Reads until there are so many records of the replay, and a little longer.
    Records replayed(const std::string &replay, size_t count)
    {
        const auto of_replay = [&](const Record &record)
        { return record.header("replay_id") == replay; };
        consumer_->read_until(kLong,
                              [&](const Records &records) {
                                  return std::count_if(records.begin(), records.end(), of_replay) >=
                                         static_cast<long>(count);
                              });
        consumer_->read_for(Milliseconds(200));
        Records found;
        for (const Record &record : consumer_->records())
            if (of_replay(record))
                found.push_back(record);
        return found;
    }

    std::string describe(const std::string &replay)
    {
        return db_.value("select r::text || coalesce(s.last_error, '') from outbox.replays r, "
                         "outbox.relay_status s where replay_id = $1",
                         replay);
    }

private:
    TestDatabase database_;
    Db db_ = database_.connect();
    std::unique_ptr<Consumer> consumer_;
};

inline std::vector<std::string>
ids_of(const Records &records)
{
    std::vector<std::string> ids;
    for (const Record &record : records)
        ids.push_back(record.header("id").value_or(""));
    return ids;
}

inline std::set<std::string>
set_of(const std::vector<std::string> &ids)
{
    return {ids.begin(), ids.end()};
}

// Whether the records of each key, the first of each event, are in the order of emission.
inline bool
in_order_of_keys(const Records &records, const std::vector<std::string> &emitted)
{
    std::map<std::string, size_t> number;
    for (const std::string &id : emitted)
        number.emplace(id, number.size());
    std::map<std::string, size_t> last;
    std::set<std::string> seen;
    for (const Record &record : records)
    {
        const std::string id = record.header("id").value_or("");
        if (!seen.insert(id).second)
            continue;
        size_t &before = last[record.key.value_or("")];
        if (number.at(id) + 1 <= before)
            return false;
        before = number.at(id) + 1;
    }
    return true;
}

} // namespace outbox::test
