#include "scene.h"

#include <memory>
#include <regex>
#include <sstream>

#include "support/tree.h"

namespace outbox::test
{

namespace
{

std::unique_ptr<Scene> the_scene;

} // namespace

Scene &
Scene::shared()
{
    if (!the_scene)
        the_scene.reset(new Scene);
    return *the_scene;
}

void
Scene::end()
{
    the_scene.reset();
}

Scene::Scene() : database_(cluster()), db_(database_.connect()), stack_(cluster(), database_.name())
{
    // The first attempt may be made together with others, the second is the event's own.
    for (const char *setting : {"outbox.backoff_initial = '50ms'", "outbox.backoff_max = '200ms'",
                                "outbox.max_attempts = 1"})
        db_.exec("alter database " + database_.name() + " set " + setting);
    cluster().reload();
    db_ = database_.connect();
}

EmbeddedKafka &
Scene::broker()
{
    return dynamic_cast<EmbeddedKafka &>(kafka());
}

std::string
Scene::emit(const std::string &type, const std::string &key)
{
    return db_.value("select outbox.emit($1, $2, 'made', '{}')", type, key);
}

void
Scene::reach_quiet_state()
{
    mixed_ = false;
    broker().command("up", "state=up");
    broker().command("clear Produce");
    db_.exec("select outbox.resume()");
    db_.exec("select outbox.drop_subscription(name) from outbox.subscriptions");
    db_.exec("select outbox.discard(event_id, 'test') from outbox.deliveries where state <> "
             "'DISCARDED'");
    ASSERT_EQ(db_.value("select outbox.drain('20 s')"), "t");
    db_.exec("delete from outbox.deliveries");
    ASSERT_TRUE(database_.reaches_state("running"));
}

void
Scene::reach_mixed_state()
{
    if (mixed_)
        return;
    ASSERT_NO_FATAL_FAILURE(reach_quiet_state());
    // It sends nothing, so that what the broker refuses is what the default relay sends.
    db_.exec("select outbox.create_subscription('copy', 'kafka', jsonb_build_object("
             "'bootstrap_servers', $1::text, 'topic_template', 'copy.{aggregate_type}'))",
             kafka().bootstrap());
    db_.exec("select outbox.pause('to be looked at', 'copy')");
    ASSERT_TRUE(wait_until(
        std::chrono::seconds(20),
        [&] { return db_.value("select state from outbox.subscription_status") == "paused"; }));
    db_.exec("select outbox.emit($1, i::text, 'made', '{}') from generate_series(1, 500) i",
             database_.type());
    db_.exec("select outbox.mark_processed(outbox.uuid_v7(), 'me') from generate_series(1, 10)");
    ASSERT_EQ(db_.value("select outbox.drain('20 s', 'default')"), "t");
    broker().command("fail Produce MSG_SIZE_TOO_LARGE 2");
    emit(database_.type(), "line");
    ASSERT_TRUE(
        wait_until(std::chrono::seconds(20), [&]
                   { return db_.value("select failed_events from outbox.relay_status") == "1"; }));
    broker().command("clear Produce");
    emit(database_.type(), "line");
    emit(database_.type(), "line");
    ASSERT_TRUE(wait_until(std::chrono::seconds(20),
                           [&]
                           {
                               return db_.value("select count(*) from outbox.deliveries "
                                                "where state = 'WAITING'") == "2";
                           }));
    db_.exec("select outbox.pause('to be looked at')");
    ASSERT_TRUE(database_.reaches_state("paused"));
    for (int i = 0; i < 7; i++)
        emit(database_.type(), "later");
    mixed_ = true;
}

bool
Scene::fires(const std::string &alert, const std::string &job)
{
    // Of the default subscription, or of the database.
    return prometheus().becomes("count(ALERTS{alertname=\"" + alert +
                                    "\", alertstate=\"firing\", job=\"" + job +
                                    "\", subscription=~\"default|\"})",
                                1);
}

bool
Scene::ends(const std::string &alert)
{
    return prometheus().vanishes("ALERTS{alertname=\"" + alert + "\"}");
}

std::set<std::string>
Scene::states_of_the_runbook()
{
    std::istringstream lines(read_file(in_source("docs/operations.md")));
    std::set<std::string> states;
    std::string line;
    bool inside = false;
    const std::regex row("\\| `([a-z_]+)` \\|.*");
    std::smatch match;
    while (std::getline(lines, line))
    {
        if (line.rfind("## ", 0) == 0)
            inside = line == "## States of the relay";
        else if (inside && line.empty() && !states.empty())
            return states;
        else if (inside && std::regex_match(line, match, row) && match[1] != "state")
            states.insert(match[1]);
    }
    return states;
}

} // namespace outbox::test
