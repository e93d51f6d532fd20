#include "moving.h"

#include <map>
#include <regex>
#include <set>
#include <stdexcept>

#include "support/tree.h"
#include "support/workspace.h"

namespace outbox::test
{

std::vector<std::string>
statements_of(const std::string &heading, size_t blocks)
{
    const std::string page = read_file(in_source("docs/migrating.md"));
    const size_t begin = page.find("\n## " + heading + "\n");
    if (begin == std::string::npos)
        throw std::runtime_error("docs/migrating.md has no section " + heading);
    const std::string section = page.substr(begin, page.find("\n## ", begin + 1) - begin);
    const std::regex block("```sql\n([^`]*)```");
    std::vector<std::string> all;
    for (std::sregex_iterator at(section.begin(), section.end(), block), none; at != none; ++at)
        all.push_back((*at)[1]);
    if (all.size() != blocks)
        throw std::runtime_error("the section has " + std::to_string(all.size()) + " blocks");
    return all;
}

BesideDebezium::BesideDebezium()
    : server(Settings{{"wal_level", "logical"}}), database(server),
      sql(statements_of("From Debezium's outbox event router", kBlocks)), db(database.connect())
{
    db.exec("select outbox.pause('moving in')");
    db.exec(sql[kTable]);
    db.exec(sql[kFunction]);
}

Writers::Writers(const TestDatabase &database, std::string insert)
    : database_(database), insert_(std::move(insert))
{
    for (int client = 0; client < kClients; client++)
        threads_.emplace_back([this, client] { write(client); });
}

void
Writers::write(int client)
{
    try
    {
        Db db = database_.connect();
        for (int number = 0; !ended_; number++)
        {
            const int key = client * kKeysOfEach + number % kKeysOfEach;
            db.exec(insert_, "key-" + std::to_string(key), number / kKeysOfEach);
            ++written_;
            std::this_thread::sleep_for(Milliseconds(1)); // a pace, not a wait
        }
    }
    catch (const std::exception &error)
    {
        failures_[client] = error.what();
    }
}

void
Writers::write_more(int count) const
{
    const int enough = written() + count;
    if (!wait_until(std::chrono::seconds(60), [&] { return written() >= enough; }))
        throw std::runtime_error("the clients do not write");
}

void
Writers::end()
{
    ended_ = true;
    for (std::thread &thread : threads_)
        if (thread.joinable())
            thread.join();
}

void
Writers::finish()
{
    end();
    for (const std::string &failure : failures_)
        if (!failure.empty())
            throw std::runtime_error("a client failed: " + failure);
}

void
expect_each_once_in_order(const std::vector<Record> &records, int written)
{
    EXPECT_EQ(records.size(), static_cast<size_t>(written));
    std::map<std::string, int> next;
    std::map<std::string, std::set<int32_t>> partitions;
    for (const Record &record : records)
    {
        const std::string key = record.key.value_or("(none)");
        EXPECT_EQ(record.value, "{\"n\": " + std::to_string(next[key]++) + "}") << key;
        partitions[key].insert(record.partition);
    }
    EXPECT_EQ(partitions.size(), static_cast<size_t>(Writers::kClients * Writers::kKeysOfEach));
    for (const auto &[key, numbers] : partitions)
        EXPECT_EQ(numbers.size(), 1U) << key << " is in several partitions";
}

} // namespace outbox::test
