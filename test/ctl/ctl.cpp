#include "ctl.h"

#include <cstdlib>

#include <sys/wait.h>

#include "support/tree.h"

namespace outbox::test
{

namespace
{

Json
parsed(const std::string &text)
{
    Json json = Json::parse(text, nullptr, false);
    if (!json.is_discarded())
        return json;
    ADD_FAILURE() << "this is no JSON: " << text;
    return {};
}

} // namespace

std::string
outboxctl()
{
    const char *other = std::getenv("OUTBOXCTL");
    return other == nullptr ? in_build("outboxctl/outboxctl") : other;
}

Json
Ran::json() const
{
    return parsed(out);
}

Json
Ran::error_json() const
{
    return parsed(err);
}

Environment
connection(const PgCluster &server, const std::string &database, const std::string &user)
{
    return {{"PGHOST", "127.0.0.1"},
            {"PGPORT", std::to_string(server.port())},
            {"PGUSER", user},
            {"PGDATABASE", database}};
}

Ran
ctl(const Environment &environment, const Words &arguments, const std::string &input,
    Milliseconds limit)
{
    const std::string base = run_dir() / unique_name("ctl");
    write_file(base + ".in", input);
    Command command({"/bin/sh", "-c",
                     R"(base=$1; shift; exec "$@" <"$base.in" >"$base.out" 2>"$base.err")", "sh",
                     base, outboxctl()});
    command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
    command.environment = environment;
    const Finished finished = run(command, limit);
    EXPECT_FALSE(finished.timed_out)
        << "outboxctl did not end; it said: " << read_file(base + ".err");
    Ran ran;
    ran.status =
        WIFEXITED(finished.status) ? WEXITSTATUS(finished.status) : 128 + WTERMSIG(finished.status);
    ran.out = read_file(base + ".out");
    ran.err = read_file(base + ".err");
    return ran;
}

EmbeddedKafka &
broker()
{
    return dynamic_cast<EmbeddedKafka &>(kafka());
}

Ran
CtlTest::ctl(const Words &arguments, const std::string &input) const
{
    return test::ctl(connection(cluster(), database_.name()), arguments, input);
}

Ran
CtlTest::ctl_as(const std::string &user, const Words &arguments) const
{
    return test::ctl(connection(cluster(), database_.name(), user), arguments);
}

std::string
CtlTest::emit(const std::string &key, const std::string &payload) const
{
    const Ran ran =
        ctl({"emit", database_.type(), key, "order.paid", payload, "--wait", "20", "--json"});
    EXPECT_EQ(ran.status, 0) << ran.err;
    return ran.json().value("id", "");
}

std::string
CtlTest::emit_refused(const std::string &key) const
{
    Db db = database_.connect();
    db.exec("alter database " + database_.name() + " set outbox.max_attempts = 1");
    db.exec("select pg_reload_conf()");
    // The first attempt may be made together with others, the second is the event's own.
    broker().command("fail Produce MSG_SIZE_TOO_LARGE 2");
    std::string id = db.value("select outbox.emit($1, $2, 'order.big', '{\"a\": [1, 2]}')",
                              database_.type(), key);
    EXPECT_TRUE(wait_until(std::chrono::seconds(20),
                           [&]
                           {
                               return db.value("select count(*) from outbox.dead_letters where "
                                               "event_id = $1::text::uuid",
                                               id) == "1";
                           }));
    broker().command("clear Produce");
    return id;
}

std::string
CtlTest::new_role()
{
    std::string role = unique_name("role_");
    db_.exec("create role " + role + " login");
    return role;
}

} // namespace outbox::test
