#include <stdexcept>

#include "kafka_client.h"
#include "kafka_cluster.h"
#include "workspace.h"

namespace outbox::test
{

namespace
{

constexpr auto kAnswerLimit = std::chrono::seconds(10);

// The rest of the last line of `text` that starts with `prefix`, once that line is complete.
std::string
last_answer(const std::string &text, const std::string &prefix)
{
    const size_t start = text.rfind("\n" + prefix);
    if (start == std::string::npos)
        return {};
    const size_t value = start + 1 + prefix.size();
    const size_t end = text.find('\n', value);
    return end == std::string::npos ? std::string() : text.substr(value, end - value);
}

} // namespace

EmbeddedKafka::EmbeddedKafka() : log_(log_dir() / (unique_name("mock-broker-") + ".log"))
{
    Command broker({std::string(OUTBOX_BUILD_DIR) + "/test/mock_broker", "--partitions",
                    std::to_string(kDefaultPartitions)});
    broker.output = log_.string();
    broker.keep_stdin_open = true;
    process_ = std::make_unique<Process>(broker);

    const auto told = [this]
    {
        bootstrap_ = last_answer("\n" + read_file(log_), "bootstrap=");
        return !bootstrap_.empty() || !process_->running();
    };
    if (!wait_until(kAnswerLimit, told) || bootstrap_.empty())
        throw std::runtime_error("the mock broker did not start:\n" + read_file(log_));
    command("down"); // like every Kafka here, it is there only after start()
}

// The broker answers each command with a line "state=up" or "state=down" when it has taken effect.
void
EmbeddedKafka::command(const std::string &word)
{
    const size_t seen = read_file(log_).size();
    process_->write_line(word);
    const auto answered = [&]
    { return last_answer("\n" + read_file(log_).substr(seen), "state=") == word; };
    if (!wait_until(kAnswerLimit, answered))
        throw std::runtime_error("the mock broker did not obey \"" + word + "\":\n" +
                                 read_file(log_));
}

void
EmbeddedKafka::create_topic(const std::string &topic, int partitions,
                            const std::map<std::string, std::string> &config)
{
    if (partitions != kDefaultPartitions || !config.empty())
        throw std::invalid_argument("the embedded broker cannot make the topic " + topic +
                                    " as asked");
    // It makes a topic when it is first asked about it.
    const KafkaHandle client = make_kafka_client(RD_KAFKA_PRODUCER, bootstrap_);
    if (!wait_until(kAnswerLimit,
                    [&] { return partition_count(client.get(), topic) == partitions; }))
        throw std::runtime_error("the embedded broker did not make the topic " + topic);
}

} // namespace outbox::test
