// No statement crashes a backend, fails with an internal error or stops the relay, whoever gives
// it.
#include <cstdlib>
#include <set>

#include "hostile_statements.h"
#include "real_kafka_test.h"
#include "servers.h"
#include "support/process.h"
#include "support/seed.h"

using namespace outbox::test;

namespace
{

constexpr int kCalls = 4000;
constexpr int kInserts = 800;
constexpr int kTriggers = 600;
constexpr int kCommands = 1500;

// A session of one role.
struct Session
{
    Db db;
    std::string role;
    std::set<std::string> states;
    size_t worked = 0;

    Session(PgCluster &server, const std::string &database, const std::string &name)
        : db(server, database, name), role(name)
    {
        db.exec("set client_min_messages = error; set statement_timeout = '300ms'; "
                "set lock_timeout = '100ms'");
    }

    void give(const Steps &steps)
    {
        for (const std::string &step : steps)
            give_one(step);
        db.exec("rollback");
    }

    // Several of them in one pipeline.
    void pipeline(const std::vector<std::string> &statements)
    {
        for (const std::string &state : db.pipeline(statements))
        {
            states.insert(state);
            EXPECT_NE(state, "XX000") << role << ": " << testing::PrintToString(statements);
        }
    }

private:
    // Says what went wrong where it should not.
    void give_one(const std::string &statement)
    {
        try
        {
            db.exec(statement);
            ++worked;
        }
        catch (const SqlError &error)
        {
            states.insert(error.sqlstate());
            EXPECT_TRUE(error.sqlstate() != "" && error.sqlstate() != "XX000")
                << role << ": " << statement.substr(0, 2000) << "\n"
                << error.what();
            if (error.sqlstate() == "")
                throw;
        }
    }
};

void
expect_publishes(const TestDatabase &database)
{
    Db db = database.connect();
    db.exec("select outbox.resume()");
    db.exec("select outbox.attach_subscription('default', 'now') "
            "where outbox.is_detached('default')");
    const std::string id = db.value("select outbox.emit($1, 'k', 'e', '{}')", database.type());
    EXPECT_EQ(db.value("select outbox.wait_published($1, '50 s')", id), "t")
        << db.value("select format('%s %s %s', state, last_error, config_error) "
                    "from outbox.relay_status");
}

// A server with two databases, and roles of all kinds.
class Scene
{
public:
    explicit Scene(unsigned seed)
        : database_(server_), victim_(server_), admin_(database_.connect()),
          statements_(seed, prepared(), victim_.name()), none_(server_, database_.name(), "h_none"),
          user_(server_, database_.name(), "h_user"),
          operating_(server_, database_.name(), "h_operator"),
          owner_(server_, database_.name(), "h_owner"),
          superuser_(server_, database_.name(), "postgres")
    {
        for (Session *session : {&none_, &user_, &operating_, &superuser_})
            session->db.exec(HostileStatements::prologue());
    }

    void give_all()
    {
        Session *const callers[] = {&user_, &superuser_, &operating_, &user_, &superuser_, &none_};
        for (int i = 0; i < kCalls; ++i)
        {
            callers[static_cast<size_t>(i) % std::size(callers)]->give(statements_.call());
            if (i % 10 == 0)
                user_.pipeline({statements_.plain_call(), statements_.plain_call()});
        }
        for (int i = 0; i < kInserts; ++i)
            (i % 2 == 0 ? user_ : superuser_).give(statements_.insert());
        for (int i = 0; i < kTriggers; ++i)
            superuser_.give(statements_.trigger());
        for (int i = 0; i < kCommands; ++i)
        {
            none_.give(statements_.command(false));
            if (i % 4 == 0)
                none_.pipeline(
                    {"select 1", statements_.bare_command(), statements_.bare_command()});
            if (i % 4 == 1)
                none_.pipeline({statements_.bare_command()});
            if (i % 5 == 0)
                (i % 2 == 0 ? owner_ : superuser_).give(statements_.command(true));
        }
    }

    void finish()
    {
        for (const Session *session : {&none_, &user_, &operating_, &owner_, &superuser_})
            std::printf("%s: %zu worked; %s\n", session->role.c_str(), session->worked,
                        testing::PrintToString(session->states).c_str());
        // The statements reach beyond the parser.
        EXPECT_GT(user_.worked, 200U);
        EXPECT_GT(superuser_.worked, 300U);
        admin_.exec("alter database " + victim_.name() + " owner to postgres");
        expect_publishes(database_);
        expect_publishes(victim_);
    }

    // Debian's package sqlsmith, if it is there: random queries on all tables and functions.
    void run_sqlsmith(Milliseconds limit)
    {
        if (!run(Command({"sqlsmith", "--version"})).ok())
        {
            std::printf("sqlsmith is not installed\n");
            return;
        }
        const std::string target = "host=" + server_.socket_dir().string() +
                                   " port=" + std::to_string(server_.port()) +
                                   " dbname=" + database_.name() + " user=h_operator";
        Command command({"sqlsmith", "--target=" + target, "--max-queries=20000"});
        const Finished finished = run(command, limit);
        std::printf("sqlsmith: %s\n", finished.timed_out ? "until its time was up" : "to its end");
    }

private:
    Db &prepared()
    {
        admin_.exec("create role h_none login; create role h_user login; "
                    "create role h_operator login; create role h_owner login");
        admin_.exec("select outbox.grant_emitter('h_user'), outbox.grant_consumer('h_user'), "
                    "outbox.grant_operator('h_operator'), outbox.grant_monitor('h_operator')");
        admin_.exec("alter database " + victim_.name() + " owner to h_owner");
        return admin_;
    }

    OwnCluster server_;
    TestDatabase database_;
    TestDatabase victim_;
    Db admin_;
    HostileStatements statements_;
    Session none_;
    Session user_;
    Session operating_;
    Session owner_;
    Session superuser_;
};

// For a fifth of the minutes, and sqlsmith for another one.
void
soak()
{
    const std::chrono::duration<double, std::ratio<60>> minutes(
        std::stod(std::getenv("OUTBOX_SOAK_MINUTES")) / 5);
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(minutes);
    const unsigned seed = choose_seed();
    Scene scene(seed);
    while (Clock::now() < end && !testing::Test::HasFailure())
        scene.give_all();
    scene.run_sqlsmith(std::chrono::duration_cast<Milliseconds>(minutes));
    scene.finish();
}

[[maybe_unused]] const bool there_is_one = []
{
    if (std::getenv("OUTBOX_SOAK_MINUTES") == nullptr)
        return false;
    testing::RegisterTest("Soak", "HostileStatementsCrashNothing", nullptr, nullptr, __FILE__,
                          __LINE__, []() -> testing::Test * { return new BodyTest(soak); });
    return true;
}();

} // namespace

TEST(HostileStatements, CrashNothingAndTheRelaysPublishAfterwards)
{
    Scene scene(choose_seed());
    scene.give_all();
    scene.finish();
}
