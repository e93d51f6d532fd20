// Processes of the server are killed at random instants under load.
#include <csignal>

#include "faults.h"
#include "workload.h"

using namespace outbox::test;

namespace
{

enum class Victim
{
    kRelay,
    kBackend,
    kPostmaster,
    kEverything // an immediate stop: the crash of a machine, as far as PostgreSQL can tell
};

// A backend in the middle of a transaction that has emitted.
pid_t
busy_backend(const TestDatabase &database)
{
    Db db = database.connect();
    std::vector<std::string> found;
    wait_until(std::chrono::seconds(20),
               [&]
               {
                   found = db.column("select pid from pg_stat_activity where datname = $1 and "
                                     "backend_type = 'client backend' and backend_xid is not null "
                                     "and pid <> pg_backend_pid()",
                                     database.name());
                   return !found.empty();
               });
    return static_cast<pid_t>(std::stoi(found.at(0)));
}

void
strike(Victim victim, PgCluster &server, const TestDatabase &database)
{
    switch (victim)
    {
    case Victim::kRelay:
        if (kill(database.relay_pid(), SIGKILL) != 0)
            throw std::runtime_error("the relay was gone before it was killed");
        break;
    case Victim::kBackend:
        if (kill(busy_backend(database), SIGKILL) != 0)
            throw std::runtime_error("the backend was gone before it was killed");
        break;
    case Victim::kPostmaster:
        server.kill9();
        server.start();
        break;
    case Victim::kEverything:
        server.restart(Shutdown::kImmediate);
        break;
    }
}

void
expect_nothing_lost_over_kills(const char *fault, Victim victim, int rounds)
{
    OwnCluster server(kFaultSettings);
    server.expect_kill();
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    Consumer consumer(kafka().bootstrap(), {database.topic()});

    Workload::Options options;
    options.clients = 6;
    options.server_may_crash = true;
    options.transactions = 1000000;
    const unsigned seed = choose_seed();
    Workload workload(server, database, options);
    FaultRounds faults(fault, consumer, seed);
    ASSERT_TRUE(consumer.read_count(100, std::chrono::seconds(30)));
    for (int round = 0; round < fault_rounds(rounds) && !testing::Test::HasFailure(); ++round)
    {
        faults.read_for_random(Milliseconds(800));
        faults.round([&] { strike(victim, server, database); });
    }
    workload.stop();
    workload.finish();
    Db db = database.connect();
    faults.judge(check_delivery(db, consumer));
}

} // namespace

TEST(Crash, NothingIsLostOrReorderedAndOnlyTheLastSecondRepeatsWhenTheRelayIsKilledAtRandomInstants)
{
    expect_nothing_lost_over_kills("relay killed (-9)", Victim::kRelay, 4);
}

TEST(Crash, NothingIsLostOrReorderedAndOnlyTheLastSecondRepeatsWhenABackendIsKilledInMidTransaction)
{
    expect_nothing_lost_over_kills("backend killed (-9) in mid-transaction", Victim::kBackend, 3);
}

TEST(Crash, NothingIsLostOrReorderedAndOnlyTheLastSecondRepeatsWhenThePostmasterIsKilled)
{
    expect_nothing_lost_over_kills("postmaster killed (-9)", Victim::kPostmaster, 3);
}

TEST(Crash, NothingIsLostOrReorderedAndOnlyTheLastSecondRepeatsWhenTheServerStopsImmediately)
{
    expect_nothing_lost_over_kills("immediate stop", Victim::kEverything, 3);
}
