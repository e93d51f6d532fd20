// The relay works as a superuser: nobody else's code may run in it.
#include "servers.h"

using namespace outbox::test;

namespace
{

constexpr auto kSoon = std::chrono::seconds(20);

// A role that wants to be a superuser, with a function that notes who runs it.
class Mallory
{
public:
    explicit Mallory(const TestDatabase &database)
        : db_(database.connect()), name_(database.name() + "_mallory")
    {
        db_.exec("create role " + name_ + "; grant usage on schema outbox to " + name_ +
                 "; create schema mallory authorization " + name_ +
                 "; create table mallory.loot (who text, what text); alter table mallory.loot "
                 "owner to " +
                 name_ + "; grant insert on mallory.loot to public");
        db_.exec("set role " + name_);
        db_.exec("create function mallory.trap() returns trigger language plpgsql as $$ begin "
                 "insert into mallory.loot values (current_user, tg_table_name); return new; "
                 "end $$");
        db_.exec("reset role");
    }
    ~Mallory()
    {
        try
        {
            db_.exec("reset role; reassign owned by " + name_ + " to postgres; drop owned by " +
                     name_ + " cascade; drop role " + name_);
        }
        catch (const std::exception &error)
        {
            ADD_FAILURE() << "cannot drop " << name_ << ": " << error.what();
        }
    }
    Mallory(const Mallory &) = delete;
    Mallory &operator=(const Mallory &) = delete;

    const std::string &name() const { return name_; }
    Db &db() { return db_; }
    void exec(const std::string &sql)
    {
        db_.exec("set role " + name_);
        db_.exec(sql);
        db_.exec("reset role");
    }

private:
    Db db_;
    std::string name_;
};

} // namespace

// Whoever is granted TRIGGER on a table, as on all tables of a schema, could have his function
// called by everybody who writes to it.
TEST(ForeignCode, TriggersOfOthersOnTheExtensionsTablesDoNotRunInTheRelay)
{
    TestDatabase database(cluster());
    kafka().create_topic(database.topic());
    Mallory mallory(database);
    Db &db = mallory.db();
    db.exec("grant trigger on all tables in schema outbox to " + mallory.name());
    for (const char *table : {"relay_position", "ticks", "deliveries", "ring", "expiry"})
        mallory.exec("create trigger trap before insert or update on outbox." + std::string(table) +
                     " for each row execute function mallory.trap()");
    const std::string id = db.value("select outbox.emit($1, 'k', 'e', '{}')", database.type());
    EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", id), "t");
    EXPECT_TRUE(wait_until(kSoon, [&]
                           { return db.value("select count(*) > 0 from outbox.ticks") == "t"; }));
    EXPECT_EQ(db.value("select count(*) from mallory.loot"), "0");
    // The trap works: others do run it.
    db.exec("update outbox.ring set turns = turns where slot = 7");
    EXPECT_EQ(db.value("select who || what from mallory.loot"), "postgresring");
}

TEST(ForeignCode, TheRelayStopsWhileSomebodyElseThanASuperuserOwnsWhatItUses)
{
    TestDatabase database(cluster());
    kafka().create_topic(database.topic());
    Mallory mallory(database);
    Db &db = mallory.db();
    int key = 0;
    for (const std::string object :
         {"table outbox.deliveries", "view outbox.current_position", "sequence outbox.events_seq",
          "schema outbox", "function outbox.visible_in(bigint,pg_snapshot)"})
    {
        SCOPED_TRACE(object);
        const std::string owner_before = db.value("select current_user");
        EXPECT_TRUE(database.reaches_state("running"));
        db.exec("alter " + object + " owner to " + mallory.name());
        const std::string id = db.value("select outbox.emit($1, $2, 'e', '{}')", database.type(),
                                        std::to_string(key++));
        EXPECT_TRUE(database.reaches_state("stopped"));
        const std::string error = db.value("select last_error from outbox.relay_status");
        EXPECT_EQ(error.find(object + " belongs to"), 0U) << error;
        db.exec("alter " + object + " owner to " + owner_before);
        db.exec("select outbox.adopt_position()");
        EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", id), "t");
    }
    // A superuser may, for as long as he is one.
    db.exec("alter role " + mallory.name() + " superuser");
    db.exec("alter table outbox.deliveries owner to " + mallory.name());
    const std::string id = db.value("select outbox.emit($1, 'k', 'e', '{}')", database.type());
    EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", id), "t");
    db.exec("alter role " + mallory.name() + " nosuperuser");
    EXPECT_TRUE(database.reaches_state("stopped"));
    db.exec("alter table outbox.deliveries owner to postgres");
}

// Before he has put objects of his own in the place of those that the relay looks for, and while
// something of his is left behind.
TEST(ForeignCode, TheRelayStopsWhileOthersMayReplaceOrHaveReplacedWhatItUses)
{
    struct Attack
    {
        const char *attack; // $ stands for mallory
        const char *says;
        const char *remedy;
    };
    constexpr Attack kAttacks[] = {
        {"grant create on schema outbox to $", "may create objects in the schema outbox",
         "revoke create on schema outbox from $"},
        {"grant create on schema outbox to public", "everybody may create objects in the schema",
         "revoke create on schema outbox from public"},
        {"alter schema outbox rename to moved; create schema outbox authorization $; "
         "create view outbox.current_position as select * from moved.current_position",
         "the schema \"outbox\" is not the one of the extension",
         "drop schema outbox cascade; alter schema moved rename to outbox"},
        {"grant create on schema outbox to $; set local role $; create view outbox.mine as select "
         "1; reset role; revoke create on schema outbox from $",
         "view outbox.mine belongs to", "drop view outbox.mine"},
        {"create trigger trap before update on outbox.relay_position for each row execute function "
         "mallory.trap(); alter table outbox.relay_position enable always trigger trap",
         "trigger trap on table outbox.relay_position uses function mallory.trap()",
         "drop trigger trap on outbox.relay_position"},
        {"create index trap on outbox.ticks (mallory.note(next_xid))",
         "index outbox.trap uses function mallory.note(bigint)", "drop index outbox.trap"},
    };
    TestDatabase database(cluster());
    kafka().create_topic(database.topic());
    Mallory mallory(database);
    Db &db = mallory.db();
    const auto named = [&](std::string sql)
    {
        for (std::size_t at; (at = sql.find('$')) != std::string::npos;)
            sql.replace(at, 1, mallory.name());
        return sql;
    };
    mallory.exec("create function mallory.note(bigint) returns bigint immutable language sql as "
                 "'select $1'");
    for (const Attack &attack : kAttacks)
    {
        SCOPED_TRACE(attack.attack);
        EXPECT_TRUE(database.reaches_state("running"));
        db.exec("begin; " + named(attack.attack) + "; commit");
        const std::string relay_status =
            db.value("select count(*) from pg_namespace where nspname = 'moved'") == "1"
                ? "moved.relay_status"
                : "outbox.relay_status";
        EXPECT_TRUE(wait_until(
            kSoon,
            [&] { return db.value("select state = 'stopped' from " + relay_status) == "t"; }));
        const std::string error = db.value("select last_error from " + relay_status);
        EXPECT_NE(error.find(attack.says), std::string::npos) << error;
        db.exec("begin; " + named(attack.remedy) + "; commit");
        db.exec("select outbox.adopt_position()");
        const std::string id = db.value("select outbox.emit($1, 'k', 'e', '{}')", database.type());
        EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", id), "t");
    }
    EXPECT_EQ(db.value("select count(*) from mallory.loot"), "0");
}
