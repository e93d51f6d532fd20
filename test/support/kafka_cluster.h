#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "process.h"

namespace outbox::test
{

// A Kafka that a test owns. Both kinds create unknown topics when a producer asks for them, with
// kDefaultPartitions partitions.
class Kafka
{
public:
    static constexpr int kDefaultPartitions = 4;

    virtual ~Kafka() = default;

    // "real" or "embedded"
    virtual std::string kind() const = 0;

    // Where to connect; stays the same over stop() and start(), and is known before the first
    // start().
    virtual std::string bootstrap() const = 0;

    // Starts it, or brings it back, and waits until it answers.
    virtual void start() = 0;

    // Takes it away in good order; what it stored is there again after start().
    virtual void stop() = 0;

    // Takes it away without warning; what it acknowledged is there again after start().
    virtual void kill9() = 0;

    // Whether a producer that sends again what was stored, as the answer got lost, makes no repeat.
    virtual bool recognises_repeats() const = 0;

    // Creates a topic and waits until it can be used. `config` as in kafka-topics.sh --config.
    virtual void create_topic(const std::string &topic, int partitions = kDefaultPartitions,
                              const std::map<std::string, std::string> &config = {}) = 0;
};

// Apache Kafka: `nodes` processes, each broker and controller (KRaft), on free ports of 127.0.0.1.
class RealKafka : public Kafka
{
public:
    // `properties` are added to every node's server.properties and win over the harness's own, to
    // which only "listeners" adds more.
    explicit RealKafka(int nodes = 1, const std::map<std::string, std::string> &properties = {});
    ~RealKafka() override;

    std::string kind() const override { return "real"; }
    std::string bootstrap() const override;
    void start() override;
    void stop() override;
    void kill9() override;
    bool recognises_repeats() const override { return true; }
    void create_topic(const std::string &topic, int partitions = kDefaultPartitions,
                      const std::map<std::string, std::string> &config = {}) override;

    // One node of several; start_node() does not wait, start() and wait_ready() do.
    void start_node(size_t node);
    void stop_node(size_t node);
    Process &process(size_t node) { return *nodes_.at(node).process; }
    // Where it keeps its partitions.
    std::filesystem::path data(size_t node) const { return nodes_.at(node).directory / "data"; }
    void wait_ready();

private:
    struct Node
    {
        int port = 0;
        int controller_port = 0;
        std::filesystem::path directory;
        std::filesystem::path log;
        std::unique_ptr<Process> process;
    };

    static void write_shared_classes();
    void format(size_t index, const std::map<std::string, std::string> &properties);

    std::vector<Node> nodes_;
    std::string sharing_; // an option of the JVM; empty: the usual one
};

// Runs a class of Kafka's with these arguments.
std::vector<std::string> kafka_command(const std::vector<std::string> &arguments);

// The Kafka protocol without Kafka: librdkafka's mock cluster, run by build/test/mock_broker. It
// keeps its records in memory and takes whatever port it gets, so its process lives as long as this
// object, and it is taken away by the commands "down" (connections are closed and refused) and "up"
// on its stdin.
class EmbeddedKafka : public Kafka
{
public:
    EmbeddedKafka();

    std::string kind() const override { return "embedded"; }
    std::string bootstrap() const override { return bootstrap_; }
    void start() override { command("up", "state=up"); }
    void stop() override { command("down", "state=down"); }
    void kill9() override { stop(); }
    // The mock cluster looks at the numbering of transactional producers only.
    bool recognises_repeats() const override { return false; }

    // Only with the default number of partitions and no config: that is what the mock cluster
    // offers.
    void create_topic(const std::string &topic, int partitions = kDefaultPartitions,
                      const std::map<std::string, std::string> &config = {}) override;

    // Any command that mock_broker --help lists; throws when it answers otherwise than expected.
    void command(const std::string &words, const std::string &expected = "ok");

private:
    std::string next_answer();

    std::filesystem::path log_;
    size_t log_read_ = 0;
    std::unique_ptr<Process> process_;
    std::string bootstrap_;
};

// The kind that $OUTBOX_TEST_KAFKA names, "embedded" when it is not set. Not started yet.
std::unique_ptr<Kafka> make_kafka();

} // namespace outbox::test
