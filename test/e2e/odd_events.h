#pragma once

#include <string>
#include <vector>

#include "servers.h"

namespace outbox::test
{

// The event's id, in whichever format of headers.
std::string id_of(const Record &record);

// A database of an encoding of its own whose events come past all checks, and who reads its topic.
// Refused events are tried three times, quickly.
class OddEvents
{
public:
    explicit OddEvents(PgCluster &server, const std::string &encoding = "UTF8",
                       const Settings &settings = {});

    const TestDatabase &database() const { return database_; }
    Db &db() { return db_; }
    Consumer &consumer() { return consumer_; }

    std::string emit(const std::string &key);

    // Inserts a row as a superuser can, without trigger and checks; the columns are SQL
    // expressions. What is left out is a good event's. Returns its id.
    std::string insert(const std::map<std::string, std::string> &columns);

    // Whether what the extension checks at INSERT is checked; not at first.
    void check_inserts(bool on);

    std::string state(const std::string &id);
    std::string error(const std::string &id);
    bool fails(const std::string &id);
    // Whether all of these have come, and none of the others.
    bool arrive(const std::vector<std::string> &ids);
    std::vector<std::string> arrived(const std::string &key) const;

    // What relay_status and outbox.deliveries say, for messages of failed tests.
    std::string describe();

private:
    TestDatabase database_;
    bool checking_ = false;
    Db db_;
    Consumer consumer_;
};

} // namespace outbox::test
