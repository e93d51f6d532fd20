// No statement crashes a backend, fails with an internal error or stops the relay, whoever gives
// it.
#include <set>

#include "hostile_statements.h"
#include "servers.h"
#include "support/seed.h"

using namespace outbox::test;

namespace
{

constexpr int kCalls = 4000;
constexpr int kInserts = 800;
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
    const std::string id = db.value("select outbox.emit($1, 'k', 'e', '{}')", database.type());
    EXPECT_EQ(db.value("select outbox.wait_published($1, '50 s')", id), "t")
        << db.value("select format('%s %s %s', state, last_error, config_error) "
                    "from outbox.relay_status");
}

} // namespace

TEST(HostileStatements, CrashNothingAndTheRelaysPublishAfterwards)
{
    OwnCluster server;
    TestDatabase database(server);
    TestDatabase victim(server);
    Db admin = database.connect();
    admin.exec("create role h_none login; create role h_user login; create role h_operator login; "
               "create role h_owner login");
    admin.exec("select outbox.grant_emitter('h_user'), outbox.grant_consumer('h_user'), "
               "outbox.grant_operator('h_operator'), outbox.grant_monitor('h_operator')");
    admin.exec("alter database " + victim.name() + " owner to h_owner");
    HostileStatements statements(choose_seed(), admin, victim.name());

    Session none(server, database.name(), "h_none");
    Session user(server, database.name(), "h_user");
    Session operating(server, database.name(), "h_operator");
    Session owner(server, database.name(), "h_owner");
    Session superuser(server, database.name(), "postgres");
    Session *const callers[] = {&user, &superuser, &operating, &user, &superuser, &none};
    for (Session *session : {&none, &user, &operating, &superuser})
        session->db.exec(HostileStatements::prologue());

    for (int i = 0; i < kCalls; ++i)
    {
        callers[static_cast<size_t>(i) % std::size(callers)]->give(statements.call());
        if (i % 10 == 0)
            user.pipeline({statements.plain_call(), statements.plain_call()});
    }
    for (int i = 0; i < kInserts; ++i)
        (i % 2 == 0 ? user : superuser).give(statements.insert());
    for (int i = 0; i < kCommands; ++i)
    {
        none.give(statements.command(false));
        if (i % 4 == 0)
            none.pipeline({"select 1", statements.bare_command(), statements.bare_command()});
        if (i % 4 == 1)
            none.pipeline({statements.bare_command()});
        if (i % 5 == 0)
            (i % 2 == 0 ? owner : superuser).give(statements.command(true));
    }
    for (const Session *session : {&none, &user, &operating, &owner, &superuser})
        std::printf("%s: %zu worked; %s\n", session->role.c_str(), session->worked,
                    testing::PrintToString(session->states).c_str());
    // The statements reach beyond the parser.
    EXPECT_GT(user.worked, 200U);
    EXPECT_GT(superuser.worked, 300U);

    admin.exec("alter database " + victim.name() + " owner to postgres");
    expect_publishes(database);
    expect_publishes(victim);
}
