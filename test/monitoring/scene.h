// What all tests of this program share: a database that is watched, and its broker to be troubled.
#pragma once

#include <set>
#include <string>

#include "e2e/servers.h"
#include "stack.h"

namespace outbox::test
{

class Scene
{
public:
    // Made at first use, on the embedded broker.
    static Scene &shared();
    // Ends the servers of the shared one.
    static void end();

    TestDatabase &database() { return database_; }
    Db &db() { return db_; }
    const Prometheus &prometheus() const { return stack_.prometheus(); }
    EmbeddedKafka &broker();

    std::string emit(const std::string &type, const std::string &key);

    // Everything is published or settled, nothing is paused or broken.
    void reach_quiet_state();

    // Events were published, one failed, others wait behind it, and the relay is paused with
    // more to publish.
    void reach_mixed_state();

    // Whether an alert fires for this database.
    bool fires(const std::string &alert, const std::string &job = "outbox");
    bool ends(const std::string &alert);

    // The states that docs/operations.md has a remedy for.
    static std::set<std::string> states_of_the_runbook();

private:
    Scene();

    TestDatabase database_;
    Db db_;
    MonitoringStack stack_;
    bool mixed_ = false;
};

} // namespace outbox::test
