#include "servers.h"

#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>

namespace outbox::test
{

namespace
{

std::unique_ptr<Kafka> the_kafka;
std::unique_ptr<PgCluster> the_cluster;

void
fail_for_crashes(PgCluster &server)
{
    for (const std::string &line : server.new_crashes())
        ADD_FAILURE() << "server crash in " << server.log_file() << ": " << line;
}

// Blames a crash of the shared server on the test that saw it.
class CrashWatch : public testing::EmptyTestEventListener
{
    void OnTestEnd(const testing::TestInfo & /*info*/) override
    {
        if (the_cluster)
            fail_for_crashes(*the_cluster);
    }
};

void
stop_servers()
{
    if (the_cluster && the_cluster->running())
        the_cluster->stop();
    the_cluster.reset();
    if (the_kafka)
        the_kafka->stop();
    the_kafka.reset();
}

} // namespace

testing::AssertionResult
exact_after_outage(const Report &report)
{
    const bool expected = kafka().recognises_repeats()
                              ? report.exact()
                              : report.complete_and_ordered() && report.most_copies <= 2;
    return (expected ? testing::AssertionSuccess() : testing::AssertionFailure())
           << report.summary();
}

int
run_tests(int argc, char **argv)
{
    testing::InitGoogleTest(&argc, argv);
    std::signal(SIGPIPE, SIG_IGN); // a server that died is an error to report, not to die of
    try
    {
        const int status = RUN_ALL_TESTS();
        stop_servers();
        return status;
    }
    catch (const std::exception &error)
    {
        std::fprintf(stderr, "the tests did not end: %s\n", error.what());
        return 1;
    }
}

Kafka &
kafka()
{
    if (!the_kafka)
    {
        auto fresh = make_kafka();
        fresh->start();
        the_kafka = std::move(fresh);
    }
    return *the_kafka;
}

PgCluster &
cluster()
{
    if (!the_cluster)
    {
        auto fresh = std::make_unique<PgCluster>("shared");
        fresh->init({{"outbox.bootstrap_servers", kafka().bootstrap()}});
        fresh->start();
        the_cluster = std::move(fresh);
        testing::UnitTest::GetInstance()->listeners().Append(new CrashWatch);
    }
    return *the_cluster;
}

OwnCluster::OwnCluster(const Settings &settings) : PgCluster("own")
{
    Settings all = settings;
    all.emplace("outbox.bootstrap_servers", kafka().bootstrap());
    init(all);
    start();
}

OwnCluster::~OwnCluster()
{
    fail_for_crashes(*this);
}

TestDatabase::TestDatabase(PgCluster &server, Extension extension)
    : server_(server), name_(unique_name("test_"))
{
    Db(server_, "postgres").exec("create database " + name_);
    if (extension == Extension::kInstalled)
        connect().exec("create extension outbox");
}

TestDatabase::~TestDatabase()
{
    if (!server_.running())
        return;
    try
    {
        Db(server_, "postgres").exec("drop database " + name_);
    }
    catch (const std::exception &error)
    {
        ADD_FAILURE() << "cannot drop " << name_ << ": " << error.what();
    }
}

Db
TestDatabase::connect() const
{
    const auto deadline = Clock::now() + std::chrono::seconds(30);
    for (;;)
    {
        try
        {
            return Db(server_, name_);
        }
        catch (const SqlError &)
        {
            if (Clock::now() > deadline)
                throw;
            std::this_thread::sleep_for(Milliseconds(20));
        }
    }
}

void
TestDatabase::kill_process(pid_t pid) const
{
    Db witness = connect();
    const auto witness_lost = [&]
    {
        try
        {
            witness.exec("select 1");
            return false;
        }
        catch (const SqlError &)
        {
            return true;
        }
    };
    if (kill(pid, SIGKILL) != 0)
        throw std::runtime_error("the process was gone before it was killed");
    if (!wait_until(std::chrono::seconds(20), witness_lost))
        throw std::runtime_error("the server did not restart its processes after one was killed");
    connect();
}

void
TestDatabase::kill_relay() const
{
    kill_process(relay_pid());
}

void
TestDatabase::restart_relay() const
{
    const pid_t relay = relay_pid();
    connect().exec("select pg_terminate_backend($1)", relay);
    if (!wait_until(std::chrono::seconds(30), [&] { return relay_pid() != relay; }))
        throw std::runtime_error("no other relay was started");
}

pid_t
TestDatabase::relay_pid() const
{
    Db db = connect();
    std::optional<std::string> pid;
    wait_until(std::chrono::seconds(20),
               [&]
               {
                   pid = db.exec("select pid from outbox.relay_status").field(0);
                   return pid.has_value();
               });
    return static_cast<pid_t>(std::stoi(pid.value()));
}

bool
TestDatabase::reaches_state(const std::string &state, Milliseconds limit) const
{
    Db db = connect();
    return wait_until(limit,
                      [&] { return db.value("select state from outbox.relay_status") == state; });
}

} // namespace outbox::test
