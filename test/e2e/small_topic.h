#pragma once

#include <map>
#include <string>
#include <vector>

#include "servers.h"

namespace outbox::test
{

using Ids = std::vector<std::string>;

// A database whose events go to a topic that takes no large records, and who reads there. Refused
// events are tried again quickly and three times, unless the settings say otherwise.
class SmallTopic
{
public:
    static constexpr int kMaxMessageBytes = 3000;

    // The settings are set for the database, before its relay starts.
    explicit SmallTopic(PgCluster &server, const Settings &settings = {}, int partitions = 1,
                        int max_message_bytes = kMaxMessageBytes);

    const TestDatabase &database() const { return database_; }
    Db connect() const { return database_.connect(); }
    Db &db() { return db_; }
    Consumer &consumer() { return consumer_; }
    const std::string &topic() const { return topic_; }

    // Emits an event in a transaction of its own and returns its id.
    std::string emit(const std::string &key);
    std::string emit_too_large(const std::string &key);
    Ids emit_several(const std::string &key, int count);

    // From now on the topic takes what was too large.
    void raise_limit();

    // After a restart of the server.
    void connect_again() { db_ = database_.connect(); }

    std::string status(const std::string &id);
    bool reaches_status(const std::string &id, const std::string &status,
                        Milliseconds limit = std::chrono::seconds(20));
    // How many rows outbox.deliveries has in a state; "%" for any.
    int deliveries(const std::string &state = "%");

    // Reads until every event of `expected` has come, and whether all of them did in time.
    bool arrive(const Ids &expected, Milliseconds limit = std::chrono::seconds(20));
    // The ids read so far for a key, in their order.
    Ids arrived(const std::string &key) const;
    // Reads on and expects that nothing comes for the key but what `expected` says.
    void expect_only(const std::string &key, const Ids &expected);

    // What relay_status and the first rows of outbox.deliveries say, for messages of failed tests.
    std::string describe();

    // What has come for a key, its events with their rows in outbox.deliveries, and the end of the
    // server's log.
    std::string describe_key(const std::string &key);

    // Compares table and topic, without the events of `left_out`, when everything else has come.
    Report check(const Ids &left_out = {}, Milliseconds limit = std::chrono::seconds(60));

private:
    PgCluster &server_;
    TestDatabase database_;
    int max_message_bytes_;
    std::string topic_;
    Consumer consumer_;
    Db db_;
};

} // namespace outbox::test
