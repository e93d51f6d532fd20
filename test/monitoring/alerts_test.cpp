// Failures that are really there fire the rule that is for them, and its text says where to look.
#include <cctype>
#include <set>
#include <sstream>

#include "scene.h"
#include "support/tree.h"

using namespace outbox::test;

namespace
{

// "When Kafka does not take events" is "#when-kafka-does-not-take-events" on a page.
std::set<std::string>
anchors_of(const std::string &page)
{
    std::istringstream lines(read_file(in_source(page)));
    std::set<std::string> anchors;
    std::string line;
    while (std::getline(lines, line))
    {
        const size_t text = line.find_first_not_of('#');
        if (text == 0 || text == std::string::npos || line[text] != ' ')
            continue;
        std::string anchor;
        for (const char c : line.substr(text + 1))
            if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-')
                anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
            else if (c == ' ')
                anchor += '-';
        anchors.insert(anchor);
    }
    return anchors;
}

TEST(Alerts, EachRuleIsEvaluatedAndNamesAPlaceOfTheRunbook)
{
    const std::vector<Json> rules = Scene::shared().prometheus().rules();
    EXPECT_GE(rules.size(), 10u);
    const std::string page = read_file(in_source("docs/prometheus.md"));
    for (const Json &rule : rules)
    {
        const std::string name = rule.at("name");
        EXPECT_EQ(rule.at("health"), "ok") << rule.dump();
        const std::string runbook = rule.at("annotations").at("runbook");
        const size_t hash = runbook.find('#');
        ASSERT_NE(hash, std::string::npos) << name;
        EXPECT_EQ(anchors_of(runbook.substr(0, hash)).count(runbook.substr(hash + 1)), 1u)
            << name << ": " << runbook;
        EXPECT_NE(page.find("`" + name + "`"), std::string::npos) << name << " is not documented";
    }
}

TEST(Alerts, ABrokerThatIsGoneFiresAndOneThatIsBackEndsIt)
{
    Scene &scene = Scene::shared();
    ASSERT_NO_FATAL_FAILURE(scene.reach_quiet_state());
    EXPECT_TRUE(scene.ends("OutboxKafkaUnavailable"));
    scene.broker().stop();
    scene.emit(scene.database().type(), "k");
    EXPECT_TRUE(scene.prometheus().becomes(
        "outbox_relay_in_state{job=\"outbox\", state=\"backing_off\"}", 1));
    EXPECT_TRUE(scene.prometheus().becomes("outbox_backlog_events{job=\"outbox\"}", 1));
    EXPECT_TRUE(
        scene.prometheus().becomes("outbox_oldest_event_age_seconds{job=\"outbox\"} > bool 1", 1));
    EXPECT_TRUE(scene.fires("OutboxKafkaUnavailable"));
    EXPECT_TRUE(scene.fires("OutboxKafkaUnavailable", "outbox-sql"));
    scene.broker().start();
    EXPECT_TRUE(scene.prometheus().becomes("outbox_backlog_events{job=\"outbox\"}", 0));
    EXPECT_TRUE(scene.prometheus().becomes("outbox_oldest_event_age_seconds{job=\"outbox\"}", 0));
    EXPECT_TRUE(scene.ends("OutboxKafkaUnavailable"));
}

TEST(Alerts, AFailedEventAnOldOneAndAPauseFire)
{
    Scene &scene = Scene::shared();
    ASSERT_NO_FATAL_FAILURE(scene.reach_mixed_state());
    EXPECT_TRUE(scene.fires("OutboxEventsFailed"));
    EXPECT_TRUE(scene.fires("OutboxPaused"));
    ASSERT_NO_FATAL_FAILURE(scene.reach_quiet_state());
    EXPECT_TRUE(scene.ends("OutboxEventsFailed"));
    EXPECT_TRUE(scene.ends("OutboxPaused"));

    scene.broker().stop();
    scene.db().exec(
        "insert into outbox.events (aggregate_type, aggregate_id, event_type, payload, created_at) "
        "values ($1, 'old', 'made', '{}', now() - interval '10 min')",
        scene.database().type());
    EXPECT_TRUE(scene.fires("OutboxEventsLate"));
    ASSERT_NO_FATAL_FAILURE(scene.reach_quiet_state());
    EXPECT_TRUE(scene.ends("OutboxEventsLate"));
}

TEST(Alerts, AConfigurationThatCannotBeUsedFires)
{
    Scene &scene = Scene::shared();
    ASSERT_NO_FATAL_FAILURE(scene.reach_quiet_state());
    const std::string alter = "alter database " + scene.database().name();
    scene.db().exec(alter + " set outbox.kafka_config = 'compression.type=nonsense'");
    cluster().reload();
    EXPECT_TRUE(scene.fires("OutboxConfigurationRefused"));
    scene.db().exec(alter + " set outbox.kafka_config = ''");
    cluster().reload();
    EXPECT_TRUE(scene.ends("OutboxConfigurationRefused"));
}

TEST(Alerts, ARelayThatStoppedFires)
{
    Scene &scene = Scene::shared();
    ASSERT_NO_FATAL_FAILURE(scene.reach_quiet_state());
    // Somebody has edited the position.
    scene.db().exec("update outbox.relay_position set last_seq = last_seq");
    scene.emit(scene.database().type(), "k");
    EXPECT_TRUE(
        scene.prometheus().becomes("outbox_relay_in_state{job=\"outbox\", state=\"stopped\"}", 1));
    EXPECT_TRUE(scene.fires("OutboxNotPublishing"));
    EXPECT_EQ(scene.db().value("select outbox.adopt_position()"), "t");
    EXPECT_TRUE(
        scene.prometheus().becomes("outbox_relay_in_state{job=\"outbox\", state=\"running\"}", 1));
    EXPECT_TRUE(scene.ends("OutboxNotPublishing"));
}

// The times before each rule fires, which are too long for this program.
TEST(Alerts, TheRulesFireWhenTheyShould)
{
    const Finished ran =
        run(Command({"promtool", "test", "rules", in_source("test/monitoring/alerts_test.yml")}));
    EXPECT_TRUE(ran.ok()) << ran.output;
    // And each of them is tested.
    const std::string tests = read_file(in_source("test/monitoring/alerts_test.yml"));
    for (const Json &rule : Scene::shared().prometheus().rules())
        EXPECT_NE(tests.find("alertname: " + rule.at("name").get<std::string>() + "\n"),
                  std::string::npos)
            << rule.at("name");
}

} // namespace
