#include "support/tree.h"
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <functional>
#include <iostream>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "kafka_client.h"
#include "kafka_cluster.h"
#include "workspace.h"

namespace outbox::test
{

namespace
{

constexpr auto kFetchLimit = std::chrono::minutes(10);
constexpr auto kStartLimit = std::chrono::seconds(90);
constexpr auto kStopLimit = std::chrono::seconds(30);
constexpr auto kArchiveLimit = std::chrono::minutes(2);
constexpr const char *kClusterId = "b3V0Ym94LXRlc3RzLTAwMQ";

const std::string &
jars()
{
    static const std::string found = []
    {
        std::string dir = run_or_throw(Command({in_source("scripts/fetch-kafka")}), kFetchLimit);
        dir.erase(dir.find_last_not_of('\n') + 1);
        return dir.substr(dir.rfind('\n') + 1);
    }();
    return found;
}

// Kafka's classes as the JVM has them in memory: with this file Kafka starts for half of the
// processor's time. Its name tells the JVM's versions apart, and the JVM leaves out one that does
// not fit.
const std::string &
shared_classes()
{
    static const std::string file =
        jars() + "-classes-" +
        std::to_string(std::hash<std::string>()(run_or_throw(Command({"java", "-version"})))) +
        ".jsa";
    return file;
}

// A small JVM that starts quickly: no heap to grow into, no second compiler, no concurrent
// collector.
std::vector<std::string>
java(const std::vector<std::string> &arguments, const std::string &sharing)
{
    std::vector<std::string> argv = {"java",
                                     "-Xms128m",
                                     "-Xmx512m",
                                     "-XX:+UseSerialGC",
                                     "-XX:TieredStopAtLevel=1",
                                     "-Xshare:auto",
                                     sharing,
                                     "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                                     "-Dorg.slf4j.simpleLogger.showDateTime=true",
                                     "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
                                     "-cp",
                                     jars() + "/*"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    return argv;
}

// One program at a time, as long as this is there.
class Lock
{
public:
    explicit Lock(const std::string &file)
        : fd_(open(file.c_str(), O_CREAT | O_CLOEXEC | O_RDWR, 0600))
    {
        if (fd_ < 0 || flock(fd_, LOCK_EX) != 0)
            throw std::system_error(errno, std::generic_category(), "cannot lock " + file);
    }
    ~Lock() { close(fd_); }
    Lock(const Lock &) = delete;
    Lock &operator=(const Lock &) = delete;

private:
    int fd_;
};

std::string
address(int port)
{
    return "127.0.0.1:" + std::to_string(port);
}

} // namespace

std::vector<std::string>
kafka_command(const std::vector<std::string> &arguments)
{
    return java(arguments, "-XX:SharedArchiveFile=" + shared_classes());
}

RealKafka::RealKafka(int nodes, const std::map<std::string, std::string> &properties)
    : nodes_(static_cast<size_t>(nodes))
{
    static bool asked = false;
    if (!asked)
    {
        asked = true; // the Kafka that writes the file is one, too
        write_shared_classes();
    }
    for (Node &node : nodes_)
    {
        const std::string name = unique_name("kafka-");
        node.port = free_port();
        node.controller_port = free_port();
        node.directory = run_dir() / name;
        node.log = new_log(name);
        std::filesystem::create_directory(node.directory);
    }
    for (size_t index = 0; index < nodes_.size(); ++index)
        format(index, properties);
}

RealKafka::~RealKafka()
{
    std::error_code ignored; // what stays is below run_dir(), which goes at the end
    for (Node &node : nodes_)
    {
        node.process.reset();
        std::filesystem::remove_all(node.directory, ignored);
    }
}

// The classes that a Kafka has loaded when it ends. Without them everything takes longer, no more.
void
RealKafka::write_shared_classes()
{
    const std::string &file = shared_classes();
    const std::string part = file + ".part";
    try
    {
        const Lock lock(jars() + ".lock");
        if (std::filesystem::exists(file))
            return;
        RealKafka kafka;
        kafka.sharing_ = "-XX:ArchiveClassesAtExit=" + part;
        kafka.start();
        kafka.create_topic("any");
        if (!kafka.nodes_[0].process->stop(SIGTERM, kArchiveLimit))
            throw std::runtime_error("it takes too long");
        std::filesystem::rename(part, file);
    }
    catch (const std::exception &error)
    {
        std::cerr << "Kafka's classes are not kept for later starts: " << error.what() << "\n";
        std::error_code ignored; // there may be none
        std::filesystem::remove(part, ignored);
    }
}

// Writes the node's server.properties and makes its log directory, as kafka-storage.sh does.
void
RealKafka::format(size_t index, const std::map<std::string, std::string> &properties)
{
    std::string voters;
    for (size_t i = 0; i < nodes_.size(); ++i)
        voters +=
            (i > 0 ? "," : "") + std::to_string(i + 1) + "@" + address(nodes_[i].controller_port);
    const Node &node = nodes_[index];
    const std::string copies = std::to_string(std::min<size_t>(nodes_.size(), 3));

    std::map<std::string, std::string> all = {
        {"process.roles", "broker,controller"},
        {"node.id", std::to_string(index + 1)},
        {"controller.quorum.voters", voters},
        {"listeners",
         "PLAINTEXT://" + address(node.port) + ",CONTROLLER://" + address(node.controller_port)},
        {"controller.listener.names", "CONTROLLER"},
        {"listener.security.protocol.map", "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"},
        {"log.dirs", data(index).string()},
        {"auto.create.topics.enable", "true"},
        {"num.partitions", std::to_string(kDefaultPartitions)},
        {"default.replication.factor", copies},
        {"offsets.topic.replication.factor", copies},
        {"offsets.topic.num.partitions", "1"},
        {"transaction.state.log.replication.factor", copies},
        {"transaction.state.log.min.isr", "1"},
        {"transaction.state.log.num.partitions", "1"},
        {"group.initial.rebalance.delay.ms", "0"},
        // Tests kill members of consumer groups, and do not want to wait long for the others.
        {"group.min.session.timeout.ms", "1000"},
        // A node that was killed may come back only when its old session is over (9 s by default).
        {"broker.session.timeout.ms", "2500"},
        {"broker.heartbeat.interval.ms", "500"},
        // Two cores and one test at a time need no more threads and buffers.
        {"num.network.threads", "2"},
        {"num.io.threads", "2"},
        {"background.threads", "2"},
        {"log.cleaner.dedupe.buffer.size", "4194304"},
        {"log.cleaner.backoff.ms", "500"},
    };
    for (const auto &[name, value] : properties)
        all[name] = name == "listeners" ? all[name] + "," + value : value;
    std::string text;
    for (const auto &[name, value] : all)
        text.append(name).append("=").append(value).append("\n");
    const std::string file = node.directory / "server.properties";
    write_file(file, text);
    run_or_throw(Command(
        kafka_command({"kafka.tools.StorageTool", "format", "-t", kClusterId, "-c", file})));
}

std::string
RealKafka::bootstrap() const
{
    std::string list;
    for (const Node &node : nodes_)
        list += (list.empty() ? "" : ",") + address(node.port);
    return list;
}

void
RealKafka::start_node(size_t index)
{
    Node &node = nodes_.at(index);
    const std::vector<std::string> arguments = {"kafka.Kafka",
                                                (node.directory / "server.properties").string()};
    Command command(sharing_.empty() ? kafka_command(arguments) : java(arguments, sharing_));
    command.directory = node.directory.string();
    command.output = node.log.string();
    node.process = std::make_unique<Process>(command);
}

void
RealKafka::stop_node(size_t index)
{
    Node &node = nodes_.at(index);
    if (node.process && !node.process->stop(SIGTERM, kStopLimit))
        throw std::runtime_error("Kafka did not stop, see " + node.log.string());
    node.process.reset();
}

void
RealKafka::start()
{
    for (size_t index = 0; index < nodes_.size(); ++index)
        if (!nodes_[index].process)
            start_node(index);
    wait_ready();
}

void
RealKafka::stop()
{
    // All are asked before any is waited for: a lone node would wait for the others' votes.
    for (Node &node : nodes_)
        if (node.process)
            node.process->signal(SIGTERM);
    for (size_t index = 0; index < nodes_.size(); ++index)
        stop_node(index);
}

void
RealKafka::kill9()
{
    for (Node &node : nodes_)
        node.process.reset();
}

// Ready means: every node is a member of the cluster, as a client sees it.
void
RealKafka::wait_ready()
{
    const KafkaHandle client = make_kafka_client(RD_KAFKA_PRODUCER, bootstrap());
    const auto all_there = [&]
    {
        const rd_kafka_metadata_t *metadata = nullptr;
        if (rd_kafka_metadata(client.get(), 1, nullptr, &metadata, 5000) !=
            RD_KAFKA_RESP_ERR_NO_ERROR)
            return false;
        const bool all = metadata->broker_cnt == static_cast<int>(nodes_.size());
        rd_kafka_metadata_destroy(metadata);
        return all;
    };
    if (!wait_until(kStartLimit, all_there))
        throw std::runtime_error("Kafka did not start, its log says:\n" + read_file(nodes_[0].log));
}

void
RealKafka::create_topic(const std::string &topic, int partitions,
                        const std::map<std::string, std::string> &config)
{
    constexpr int kLimitMs = 30000;
    const KafkaHandle client = make_kafka_client(RD_KAFKA_PRODUCER, bootstrap());
    std::array<char, 512> error = {};
    std::unique_ptr<rd_kafka_NewTopic_t, decltype(&rd_kafka_NewTopic_destroy)> wanted(
        rd_kafka_NewTopic_new(topic.c_str(), partitions,
                              static_cast<int>(std::min<size_t>(nodes_.size(), 3)), error.data(),
                              error.size()),
        &rd_kafka_NewTopic_destroy);
    if (!wanted)
        throw std::invalid_argument(error.data());
    for (const auto &[name, value] : config)
        if (rd_kafka_NewTopic_set_config(wanted.get(), name.c_str(), value.c_str()) !=
            RD_KAFKA_RESP_ERR_NO_ERROR)
            throw std::invalid_argument("topic config " + name);

    std::unique_ptr<rd_kafka_queue_t, decltype(&rd_kafka_queue_destroy)> queue(
        rd_kafka_queue_new(client.get()), &rd_kafka_queue_destroy);
    rd_kafka_NewTopic_t *list[] = {wanted.get()};
    rd_kafka_CreateTopics(client.get(), list, 1, nullptr, queue.get());
    std::unique_ptr<rd_kafka_event_t, decltype(&rd_kafka_event_destroy)> answer(
        rd_kafka_queue_poll(queue.get(), kLimitMs), &rd_kafka_event_destroy);
    if (!answer || rd_kafka_event_error(answer.get()) != RD_KAFKA_RESP_ERR_NO_ERROR)
        throw std::runtime_error("cannot make the topic " + topic);
    size_t count = 0;
    const rd_kafka_topic_result_t **results = rd_kafka_CreateTopics_result_topics(
        rd_kafka_event_CreateTopics_result(answer.get()), &count);
    for (size_t i = 0; i < count; ++i)
        if (rd_kafka_topic_result_error(results[i]) != RD_KAFKA_RESP_ERR_NO_ERROR)
            throw std::runtime_error("cannot make the topic " + topic + ": " +
                                     rd_kafka_topic_result_error_string(results[i]));
    if (!wait_until(Milliseconds(kLimitMs),
                    [&] { return partition_count(client.get(), topic) == partitions; }))
        throw std::runtime_error("the topic " + topic + " does not show up");
}

} // namespace outbox::test
