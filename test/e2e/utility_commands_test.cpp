// The library looks at utility commands before PostgreSQL has checked anything.
#include "servers.h"

using namespace outbox::test;

namespace
{

// The SQLSTATE, or "" for none.
std::string
state_of(Db &db, const std::string &statement)
{
    try
    {
        db.exec(statement);
        return "";
    }
    catch (const SqlError &error)
    {
        return error.sqlstate();
    }
}

// Commands on the database by whoever may not give them; `%` is its name.
const std::vector<std::string> kCommands = {
    "create database copy template %",
    "create database copy template = %",
    "create database copy template '%'",
    "create database copy template 1",
    "create database copy template -1",
    "create database copy template 1.5",
    "create database copy template 1e400",
    "create database copy template true",
    "create database % template default",
    "create database copy template % template %",
    "create database copy template 1 template %",
    "create database copy is_template 7 template % owner 3",
    "create database %",
    "drop database %",
    "drop database if exists %",
    "drop database % with (force)",
    "alter database % rename to other",
    "alter database % set tablespace pg_default",
    "alter database % with tablespace pg_default",
    "alter database % with tablespace 7",
    "alter database % tablespace -7.5",
    "alter database % tablespace default",
    "alter database % tablespace 7 tablespace 8",
    "alter database % connection_limit 7 tablespace 7",
    "alter database % allow_connections 7",
    "drop extension outbox cascade",
    "alter extension outbox set schema public",
    "alter extension outbox update to '7'",
    "create extension outbox version '7' schema public cascade",
};

std::string
filled_in(std::string command, const std::string &name)
{
    for (size_t at = command.find('%'); at != std::string::npos; at = command.find('%'))
        command.replace(at, 1, name);
    return command;
}

} // namespace

TEST(UtilityCommands, WhoLacksTheRightDisturbsNoRelayWhateverTheOptionsAre)
{
    TestDatabase database(cluster());
    const pid_t relay = database.relay_pid();
    Db admin = database.connect();
    const std::string stranger = database.name() + "_stranger";
    const std::string creator = database.name() + "_creator";
    const std::string owner = database.name() + "_owner";
    admin.exec("create role " + stranger + "; create role " + creator + " createdb; create role " +
               owner);
    admin.exec("alter database " + database.name() + " owner to " + owner);
    for (const std::string &role : {stranger, creator, owner})
    {
        // Not that of the test, which nobody may drop from within.
        Db db(cluster(), "postgres");
        db.exec("set role " + role);
        for (const std::string &command : kCommands)
        {
            // The owner may do that; without CREATEDB he may neither copy nor rename it.
            const bool owns = role == owner && command.find("template") == std::string::npos &&
                              command.find("rename") == std::string::npos;
            if (owns)
                continue;
            const std::string text = filled_in(command, database.name());
            const std::string state = state_of(db, text);
            EXPECT_TRUE(state != "" && state != "XX000") << role << ": " << text << ": " << state;
            EXPECT_EQ(database.relay_pid(), relay) << role << ": " << text;
        }
    }
    admin.exec("alter database " + database.name() + " owner to postgres");
    admin.exec("drop role " + stranger + ", " + creator + ", " + owner);
    EXPECT_EQ(database.relay_pid(), relay);
}

TEST(UtilityCommands, InATransactionWhereTheyCannotRunTheyStopNoRelay)
{
    TestDatabase database(cluster());
    const pid_t relay = database.relay_pid();
    Db db(cluster(), "postgres");
    for (const char *command : {"drop database %", "create database copy template %",
                                "alter database % set tablespace pg_default"})
    {
        const std::string text = filled_in(command, database.name());
        db.exec("begin");
        EXPECT_EQ(state_of(db, text), "25001") << text;
        db.exec("rollback");
        EXPECT_EQ(state_of(db, "do $$ begin execute '" + text + "'; end $$"), "25001") << text;
        EXPECT_EQ(database.relay_pid(), relay) << text;
    }
}

TEST(UtilityCommands, TheRelayComesBackWhenTheCommandsSavepointIsRolledBack)
{
    TestDatabase database(cluster());
    const pid_t relay = database.relay_pid();
    Db db(cluster(), "postgres");
    Db watcher(cluster(), "postgres"); // in a transaction the view stands still
    const std::string name = database.name();
    const auto relay_of = [&]
    {
        return watcher.value("select coalesce(max(pid), 0) from pg_stat_activity "
                             "where backend_type = 'outbox relay' and datname = $1",
                             name);
    };
    db.exec("begin; savepoint a");
    db.exec("alter database " + name + " rename to " + name + "_2");
    EXPECT_TRUE(
        wait_until(std::chrono::seconds(20), [&] { return relay_of() != std::to_string(relay); }));
    db.exec("savepoint b; rollback to a");
    EXPECT_TRUE(wait_until(std::chrono::seconds(20), [&] { return relay_of() != "0"; }))
        << "while the transaction is open";
    db.exec("commit");
    Db own = database.connect();
    const std::string id = own.value("select outbox.emit($1, 'k', 'e', '{}')", database.type());
    EXPECT_EQ(own.value("select outbox.wait_published($1, '20 s')", id), "t");
}
