#include "support/tree.h"
#include <stdexcept>

#include "kafka_client.h"
#include "kafka_cluster.h"
#include "workspace.h"

namespace outbox::test
{

namespace
{

constexpr auto kAnswerLimit = std::chrono::seconds(10);

// The first whole line of `text` from `start` on; empty when there is none yet.
std::string
first_line(const std::string &text, size_t start)
{
    const size_t end = text.find('\n', start);
    return end == std::string::npos ? std::string() : text.substr(start, end - start);
}

} // namespace

EmbeddedKafka::EmbeddedKafka() : log_(new_log(unique_name("mock-broker-")))
{
    Command broker({in_build("test/mock_broker")});
    broker.output = log_.string();
    broker.keep_stdin_open = true;
    process_ = std::make_unique<Process>(broker);

    const std::string prefix = "bootstrap=";
    const std::string greeting = next_answer();
    if (greeting.compare(0, prefix.size(), prefix) != 0)
        throw std::runtime_error("the mock broker did not start: " + greeting);
    bootstrap_ = greeting.substr(prefix.size());
    command("down", "state=down"); // like every Kafka here, it is there only after start()
}

// The broker says one line at its start and one for each command.
std::string
EmbeddedKafka::next_answer()
{
    std::string line;
    const auto answered = [&]
    {
        line = first_line(read_file(log_), log_read_);
        return !line.empty() || !process_->running();
    };
    if (wait_until(kAnswerLimit, answered) && !line.empty())
        log_read_ += line.size() + 1;
    return line;
}

void
EmbeddedKafka::command(const std::string &words, const std::string &expected)
{
    std::string answer;
    if (process_->running())
    {
        process_->write_line(words);
        answer = next_answer();
    }
    if (answer == expected)
        return;
    if (const std::optional<int> status = process_->wait_for(Milliseconds(0)))
        throw std::runtime_error("the mock broker ended with " + describe_status(*status) +
                                 " at or before \"" + words + "\"; its log: " + log_.string());
    throw std::runtime_error("the mock broker answered \"" + words + "\" with \"" + answer + "\"");
}

void
EmbeddedKafka::create_topic(const std::string &topic, int partitions,
                            const std::map<std::string, std::string> &config)
{
    if (!config.empty())
        throw std::invalid_argument("the embedded broker has no topic settings, for topic " +
                                    topic);
    command("topic " + topic + " " + std::to_string(partitions), "ok");
}

} // namespace outbox::test
