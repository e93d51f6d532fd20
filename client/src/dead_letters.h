// Records that no handler could process, on their way to another topic.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <librdkafka/rdkafka.h>

#include "backoff.h"
#include "broker_names.h"
#include "kafka_config.h"
#include "kafka_end.h"
#include "log.h"
#include "outbox/consumer.h"

namespace outbox::v0::detail
{

struct DeadLetter
{
    std::string error; // why it could not be processed
    int attempts = 0;  // how often that was tried
    std::string consumer;
};

// The record's own headers, and after them those that tell why it is a dead letter: dlq_error,
// dlq_attempts, dlq_consumer, dlq_source_topic, dlq_source_partition, dlq_source_offset. If it was
// a dead letter before, those of that time are left out.
std::vector<Header> dead_letter_headers(const Record &record, const DeadLetter &letter);

class DeadLetters
{
public:
    DeadLetters(std::string bootstrap_servers, KafkaProperties properties, std::string suffix,
                Milliseconds timeout, const Log &log);
    ~DeadLetters();
    DeadLetters(const DeadLetters &) = delete;
    DeadLetters &operator=(const DeadLetters &) = delete;

    // Writes a record, with its key and value, to the topic of dead letters, and waits until all
    // replicas in sync have it. `go_on` is called every few milliseconds meanwhile; when it says
    // no, the wait is given up and false returned: the letter may or may not be written then.
    // Throws DeadLetterError when Kafka refuses it or the time is over.
    bool write(const Record &record, const DeadLetter &letter, const std::function<bool()> &go_on);

    // Takes what the client has to say between two letters, such as log lines and errors, which
    // would pile up; never waits.
    void poll();

private:
    struct Report
    {
        bool arrived = false;
        rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR_NO_ERROR;
    };

    // What callbacks get, and what librdkafka's threads use, perhaps for longer than we are there.
    struct Opaque
    {
        std::atomic<DeadLetters *> self; // none when the client is to end
        BrokerNames names;
    };

    static void on_report(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque);
    static void on_log(const rd_kafka_t *client, int level, const char *facility, const char *text);
    static int on_resolve(const char *host, const char *service, const addrinfo *hints,
                          addrinfo **result, void *opaque);
    void connect();
    void disconnect() noexcept;
    rd_kafka_resp_err_t produce(const std::string &topic, const Record &record,
                                const std::vector<Header> &headers);
    bool wait(const std::function<bool()> &go_on);

    const std::string bootstrap_servers_;
    const KafkaProperties properties_;
    const std::string suffix_;
    const Milliseconds timeout_;
    const Log &log_;
    // Of the letter that is being written; later reports of earlier ones are told apart by number.
    Report report_;
    std::uintptr_t number_ = 0;
    // Of the client that is there.
    std::shared_ptr<Opaque> opaque_;
    std::optional<KafkaEnd> end_;
    rd_kafka_t *client_ = nullptr;
};

} // namespace outbox::v0::detail
