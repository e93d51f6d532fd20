// Runs the built outboxctl.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "e2e/servers.h"

namespace outbox::test
{

using Json = nlohmann::json;
using Words = std::vector<std::string>;
using Environment = std::map<std::string, std::string>;

// The path of the program under test: $OUTBOXCTL, or the one that was built.
std::string outboxctl();

struct Ran
{
    int status = -1; // exit code; 128 + number for a signal
    std::string out;
    std::string err;

    // stdout as JSON; fails the test, and gives null, when it is none.
    Json json() const;
    Json error_json() const;
};

// How libpq finds a database: PGHOST and so on.
Environment connection(const PgCluster &server, const std::string &database,
                       const std::string &user = "postgres");

constexpr auto kCtlLimit = std::chrono::seconds(30);

// Runs it to its end, without a terminal; the test fails if that is not there within the limit.
// `input` is its stdin.
Ran ctl(const Environment &environment, const Words &arguments, const std::string &input = "",
        Milliseconds limit = kCtlLimit);

// The embedded broker of this run.
EmbeddedKafka &broker();

// A database with the extension whose relay gives up what Kafka refuses at once, and outboxctl for
// it.
class CtlTest : public testing::Test
{
protected:
    Ran ctl(const Words &arguments, const std::string &input = "") const;
    Ran ctl_as(const std::string &user, const Words &arguments) const;
    // Emits an event of this database's type, and waits until it is published.
    std::string emit(const std::string &key, const std::string &payload = "{}") const;
    // Emits one that Kafka refuses, and waits until it has failed.
    std::string emit_refused(const std::string &key) const;
    // A role that may log in; it is dropped with the server.
    std::string new_role();

    TestDatabase database_{cluster()};
    Db db_ = database_.connect();
};

} // namespace outbox::test
