// A Kafka broker in memory, for demos and tests: librdkafka's mock cluster behind real sockets.
// Prints `bootstrap=HOST:PORT` and then obeys one command a line on its standard input, each
// answered with one line when it has taken effect, until the input ends or SIGTERM or SIGINT comes.
#include <CLI/CLI.hpp>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sstream>
#include <stdexcept>
#include <string>
#include <sys/signalfd.h>
#include <unistd.h>
#include <vector>

namespace
{

constexpr int kAllBrokers = -1;
constexpr std::int16_t kProduce = 0;
constexpr std::int16_t kFetch = 1;
constexpr std::int16_t kMetadata = 3;
constexpr std::size_t kMaxLine = 4096;
constexpr std::size_t kMaxErrors = 10000;

constexpr const char *kCommands = R"(commands on standard input:
  topic NAME [PARTITIONS]        create a topic
  down [BROKER]                  take one broker (1, 2, ...) or all away; answers state=down
  up [BROKER]                    bring them back; answers state=up
  rtt MS [BROKER]                delay every answer
  leader TOPIC PARTITION BROKER  move a partition; -1 leaves it without a leader
  fail REQUEST ERROR COUNT       answer the next requests of a kind with an error
  clear REQUEST                  forget the failures still to come
  topic-error TOPIC ERROR        what metadata says about the topic from now on
The others answer "ok", and all of them "error ..." when they cannot be obeyed.

REQUEST is Produce, Fetch, ListOffsets, Metadata, FindCoordinator, ApiVersion or InitProducerId.
ERROR is Kafka's name, such as NOT_LEADER_FOR_PARTITION, or NO_ERROR; _TRANSPORT closes the
connection instead of answering.

A partition keeps its last 5 MiB or 100,000 records. Topics come into being at first use, always
with 4 partitions; --partitions is for those made by --topic and the command "topic".)";

using Words = std::vector<std::string>;

// Thrown for a command that cannot be obeyed; its text is the answer.
struct BadCommand : std::runtime_error
{
    using std::runtime_error::runtime_error;
};

int
to_number(const std::string &word)
{
    std::size_t used = 0;
    int number = 0;
    try
    {
        number = std::stoi(word, &used);
    }
    catch (const std::logic_error &)
    {
        used = 0;
    }
    if (used == 0 || used != word.size())
        throw BadCommand("not a number: " + word);
    return number;
}

rd_kafka_resp_err_t
to_error(const std::string &name)
{
    const rd_kafka_err_desc *descriptions = nullptr;
    std::size_t count = 0;
    rd_kafka_get_err_descs(&descriptions, &count);
    for (std::size_t i = 0; i < count; i++)
        if (descriptions[i].name != nullptr && name == descriptions[i].name)
            return descriptions[i].code;
    throw BadCommand("unknown error: " + name);
}

std::int16_t
to_request(const std::string &name)
{
    static const std::map<std::string, std::int16_t> requests = {
        {"Produce", kProduce},   {"Fetch", kFetch},       {"ListOffsets", 2},
        {"Metadata", kMetadata}, {"FindCoordinator", 10}, {"ApiVersion", 18},
        {"InitProducerId", 22},
    };
    const auto found = requests.find(name);
    if (found == requests.end())
        throw BadCommand("unknown request: " + name);
    return found->second;
}

void
check(rd_kafka_resp_err_t error)
{
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
        throw BadCommand(rd_kafka_err2str(error));
}

class MockBroker
{
public:
    MockBroker(int brokers, int partitions)
        : partitions_(partitions), client_(make_client(), &rd_kafka_destroy),
          cluster_(rd_kafka_mock_cluster_new(client_.get(), brokers),
                   &rd_kafka_mock_cluster_destroy)
    {
        if (cluster_ == nullptr)
            throw std::runtime_error("cannot start the mock cluster");
        // What librdkafka before 2.10 would crash of: its mock cluster tells those that ask a
        // broker that is not the leader who is, also when nobody is; and its clients look at the
        // leader's epoch of partitions that they do not know, when a topic has an error and
        // partitions, as only the mock cluster has it.
        offer_up_to(kProduce, 7);
        offer_up_to(kFetch, 11);
        offer_up_to(kMetadata, 6);
    }

    std::string bootstrap() const { return rd_kafka_mock_cluster_bootstraps(cluster_.get()); }

    // Obeys one command and returns the answer, or throws BadCommand.
    std::string obey(const Words &words)
    {
        const auto found = kHandlers.find(words.at(0));
        if (found == kHandlers.end())
            throw BadCommand("unknown command: " + words[0]);
        const Command &command = found->second;
        const std::size_t count = words.size() - 1;
        if (count < command.least_words || count > command.most_words)
            throw BadCommand("wrong number of words for " + words[0]);
        (this->*command.handler)(words);
        return command.answer;
    }

private:
    struct Command
    {
        void (MockBroker::*handler)(const Words &);
        std::size_t least_words;
        std::size_t most_words;
        const char *answer;
    };
    static const std::map<std::string, Command> kHandlers;

    static rd_kafka_t *make_client()
    {
        char text[512];
        rd_kafka_conf_t *config = rd_kafka_conf_new();
        // It only carries the cluster and has no brokers itself, which it would complain about.
        rd_kafka_conf_set_log_cb(config, nullptr);
        rd_kafka_t *client = rd_kafka_new(RD_KAFKA_PRODUCER, config, text, sizeof text);
        if (client == nullptr)
        {
            rd_kafka_conf_destroy(config);
            throw std::runtime_error(text);
        }
        return client;
    }

    void offer_up_to(std::int16_t request, std::int16_t version)
    {
        if (rd_kafka_mock_set_apiversion(cluster_.get(), request, 0, version) !=
            RD_KAFKA_RESP_ERR_NO_ERROR)
            throw std::runtime_error("cannot limit the versions of requests");
    }

    static int broker_of(const Words &words, std::size_t place)
    {
        return words.size() > place ? to_number(words[place]) : kAllBrokers;
    }

    void topic(const Words &words)
    {
        const int partitions = words.size() > 2 ? to_number(words[2]) : partitions_;
        check(rd_kafka_mock_topic_create(cluster_.get(), words[1].c_str(), partitions, 1));
    }

    void down(const Words &words)
    {
        check(rd_kafka_mock_broker_set_down(cluster_.get(), broker_of(words, 1)));
    }

    void up(const Words &words)
    {
        check(rd_kafka_mock_broker_set_up(cluster_.get(), broker_of(words, 1)));
    }

    void rtt(const Words &words)
    {
        check(
            rd_kafka_mock_broker_set_rtt(cluster_.get(), broker_of(words, 2), to_number(words[1])));
    }

    void leader(const Words &words)
    {
        check(rd_kafka_mock_partition_set_leader(cluster_.get(), words[1].c_str(),
                                                 to_number(words[2]), to_number(words[3])));
    }

    void fail(const Words &words)
    {
        const int count = to_number(words[3]);
        if (count < 1 || static_cast<std::size_t>(count) > kMaxErrors)
            throw BadCommand("count out of range: " + words[3]);
        const std::vector<rd_kafka_resp_err_t> errors(static_cast<std::size_t>(count),
                                                      to_error(words[2]));
        rd_kafka_mock_push_request_errors_array(cluster_.get(), to_request(words[1]), errors.size(),
                                                errors.data());
    }

    void clear(const Words &words)
    {
        rd_kafka_mock_clear_request_errors(cluster_.get(), to_request(words[1]));
    }

    void topic_error(const Words &words)
    {
        rd_kafka_mock_topic_set_error(cluster_.get(), words[1].c_str(), to_error(words[2]));
    }

    int partitions_;
    std::unique_ptr<rd_kafka_t, decltype(&rd_kafka_destroy)> client_;
    std::unique_ptr<rd_kafka_mock_cluster_t, decltype(&rd_kafka_mock_cluster_destroy)> cluster_;
};

const std::map<std::string, MockBroker::Command> MockBroker::kHandlers = {
    {"topic", {&MockBroker::topic, 1, 2, "ok"}},
    {"down", {&MockBroker::down, 0, 1, "state=down"}},
    {"up", {&MockBroker::up, 0, 1, "state=up"}},
    {"rtt", {&MockBroker::rtt, 1, 2, "ok"}},
    {"leader", {&MockBroker::leader, 3, 3, "ok"}},
    {"fail", {&MockBroker::fail, 3, 3, "ok"}},
    {"clear", {&MockBroker::clear, 1, 1, "ok"}},
    {"topic-error", {&MockBroker::topic_error, 2, 2, "ok"}},
};

Words
split(const std::string &line)
{
    std::istringstream stream(line);
    Words words;
    for (std::string word; stream >> word;)
        words.push_back(word);
    return words;
}

void
answer(MockBroker &broker, const std::string &line)
{
    const Words words = split(line);
    if (words.empty())
        return;
    try
    {
        std::cout << broker.obey(words) << std::endl;
    }
    catch (const BadCommand &bad)
    {
        std::cout << "error " << bad.what() << std::endl;
    }
}

// Blocks the signals that end the program, in all threads to come, and returns where they arrive.
int
open_signals()
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    if (pthread_sigmask(SIG_BLOCK, &set, nullptr) != 0)
        throw std::runtime_error("cannot block signals");
    const int fd = signalfd(-1, &set, SFD_CLOEXEC);
    if (fd == -1)
        throw std::runtime_error("cannot open a signalfd");
    return fd;
}

// Obeys every whole line in `pending` and leaves the rest there. A line that never ends is dropped.
void
obey_lines(MockBroker &broker, std::string &pending)
{
    for (std::size_t end; (end = pending.find('\n')) != std::string::npos;)
    {
        answer(broker, pending.substr(0, end));
        pending.erase(0, end + 1);
    }
    if (pending.size() > kMaxLine)
        pending.clear();
}

void
serve_commands(MockBroker &broker, int signals)
{
    std::string pending;
    pollfd wanted[] = {{STDIN_FILENO, POLLIN, 0}, {signals, POLLIN, 0}};
    for (;;)
    {
        if (poll(wanted, 2, -1) == -1 && errno != EINTR)
            throw std::runtime_error("cannot poll");
        if (wanted[1].revents != 0)
            return;
        char buffer[1024];
        const ssize_t size = read(STDIN_FILENO, buffer, sizeof buffer);
        if (size <= 0)
            return;
        pending.append(buffer, static_cast<std::size_t>(size));
        obey_lines(broker, pending);
    }
}

struct Options
{
    int brokers = 1;
    int partitions = 4;
    std::vector<std::string> topics;
};

void
run(const Options &options)
{
    const int signals = open_signals();
    MockBroker broker(options.brokers, options.partitions);
    for (const std::string &name : options.topics)
        static_cast<void>(broker.obey({"topic", name}));
    std::cout << "bootstrap=" << broker.bootstrap() << std::endl;
    serve_commands(broker, signals);
    close(signals);
}

// Returns the exit status.
int
run_program(int argc, char **argv)
{
    Options options;
    CLI::App app("A Kafka broker in memory, for demos and tests.");
    app.footer(kCommands);
    app.add_option("--brokers", options.brokers, "number of brokers")
        ->check(CLI::Range(1, 10))
        ->capture_default_str();
    app.add_option("--partitions", options.partitions, "partitions of a topic that is created")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    app.add_option("--topic", options.topics, "create this topic; may be repeated");
    CLI11_PARSE(app, argc, argv);
    run(options);
    return 0;
}

} // namespace

int
main(int argc, char **argv)
{
    try
    {
        return run_program(argc, argv);
    }
    catch (const std::exception &error)
    {
        (void) std::fprintf(stderr, "mock_broker: %s\n", error.what());
        return 1;
    }
}
