// Processes of the server are killed at random instants under load.
#include "faults.h"
#include "workload.h"

using namespace outbox::test;

namespace
{

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
