// What the tests of docs/migrating.md share: the statements of the page, clients that write all the
// while, and what a consumer must see of them.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "servers.h"

namespace outbox::test
{

// The blocks of SQL of one section of docs/migrating.md.
std::vector<std::string> statements_of(const std::string &heading, size_t blocks);

// Debezium's table and publication, a relay that is paused, and the rest of that section's blocks.
struct BesideDebezium
{
    enum
    {
        kTable,
        kFunction,
        kMove,
        kResume,
        kBack,
        kBlocks
    };

    BesideDebezium();

    OwnCluster server;
    TestDatabase database;
    const std::vector<std::string> sql;
    Db db;
};

// Clients that insert rows of their own keys, numbered by key, until they are told to end. `insert`
// takes the key and the number.
class Writers
{
public:
    static constexpr int kClients = 2;
    static constexpr int kKeysOfEach = 5;

    Writers(const TestDatabase &database, std::string insert);
    ~Writers() { end(); }
    Writers(const Writers &) = delete;
    Writers &operator=(const Writers &) = delete;

    int written() const { return written_; }
    // Until so many more are written; throws when that takes too long.
    void write_more(int count) const;
    // Ends all clients, and throws when one of them failed.
    void finish();

private:
    void write(int client);
    void end();

    const TestDatabase &database_;
    const std::string insert_;
    std::atomic<bool> ended_{false};
    std::atomic<int> written_{0};
    std::string failures_[kClients];
    std::vector<std::thread> threads_;
};

// Each row came once, as {"n": its number}, those of a key in order and in one partition.
void expect_each_once_in_order(const std::vector<Record> &records, int written);

} // namespace outbox::test
