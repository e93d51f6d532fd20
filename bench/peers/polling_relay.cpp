#include "polling_relay.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>
#include <libpq-fe.h>
#include <librdkafka/rdkafka.h>

#include "bench/support/threads.h"
#include "support/kafka_client.h"

namespace outbox::bench
{

namespace
{

using PgResult = std::unique_ptr<PGresult, decltype(&PQclear)>;

constexpr int kFlushMs = 60000;
constexpr const char *kTopicPrefix = "outbox.event."; // of the topics that all contenders use

enum Column
{
    kId,
    kAggregateType,
    kAggregateId,
    kType,
    kPayload,
    kCreatedAt
};

constexpr const char *kSelect =
    "select id, aggregate_type, aggregate_id, type, payload, created_at from classic_outbox "
    "where status = 'NEW' order by created_at for update skip locked limit $1";
constexpr const char *kUpdate =
    "update classic_outbox set status = 'PUBLISHED' where id = any($1::uuid[])";

class Connection
{
public:
    explicit Connection(const std::string &conninfo)
        : connection_(PQconnectdb(conninfo.c_str()), &PQfinish)
    {
        if (PQstatus(connection_.get()) != CONNECTION_OK)
            fail("connect");
        run("set timezone = 'UTC'");
        prepare("rows", kSelect);
        prepare("mark", kUpdate);
    }

    void run(const char *sql) { check(PQexec(connection_.get(), sql), PGRES_COMMAND_OK); }

    PgResult call(const char *name, const std::string &param, ExecStatusType expected)
    {
        const char *value = param.c_str();
        return check(PQexecPrepared(connection_.get(), name, 1, &value, nullptr, nullptr, 0),
                     expected);
    }

private:
    void prepare(const char *name, const char *sql)
    {
        check(PQprepare(connection_.get(), name, sql, 1, nullptr), PGRES_COMMAND_OK);
    }
    PgResult check(PGresult *raw, ExecStatusType expected)
    {
        PgResult result(raw, &PQclear);
        if (PQresultStatus(raw) != expected)
            fail("statement");
        return result;
    }
    [[noreturn]] void fail(const char *what)
    {
        throw std::runtime_error(
            fmt::format("the polling relay: {}: {}", what, PQerrorMessage(connection_.get())));
    }

    std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
};

std::string_view
field(const PGresult *rows, int row, Column column)
{
    return {PQgetvalue(rows, row, column), static_cast<size_t>(PQgetlength(rows, row, column))};
}

// "2026-01-31 09:05:00.12+00", as the server prints UTC, in ISO 8601 with microseconds.
std::string
iso_time(std::string_view printed)
{
    constexpr size_t kSeconds = 19; // "2026-01-31 09:05:00"
    constexpr size_t kMicroseconds = 26;
    std::string text(printed.substr(0, printed.rfind('+')));
    text.at(10) = 'T';
    if (text.size() == kSeconds)
        text += '.';
    text.resize(kMicroseconds, '0');
    return text + 'Z';
}

// Counts records that failed; `failures` is the client's opaque.
void
count_failure(rd_kafka_t *, const rd_kafka_message_t *message, void *failures)
{
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR)
        ++*static_cast<int *>(failures);
}

test::KafkaHandle
make_client(const std::string &bootstrap, int *failures)
{
    std::array<char, 512> error = {};
    std::unique_ptr<rd_kafka_conf_t, decltype(&rd_kafka_conf_destroy)> conf(rd_kafka_conf_new(),
                                                                            &rd_kafka_conf_destroy);
    const test::KafkaProperties properties = {
        {"bootstrap.servers", bootstrap},
        {"log_level", "0"},
        {"enable.idempotence", "true"},
        {"acks", "all"},
        {"partitioner", "murmur2_random"},
        {"socket.nagle.disable", "true"},
        {"linger.ms", "50"}, // flush() ends it; until then batches fill
        {"queue.buffering.max.messages", "1000000"},
    };
    for (const auto &[name, value] : properties)
        if (rd_kafka_conf_set(conf.get(), name.c_str(), value.c_str(), error.data(),
                              error.size()) != RD_KAFKA_CONF_OK)
            throw std::invalid_argument(error.data());
    rd_kafka_conf_set_dr_msg_cb(conf.get(), count_failure);
    rd_kafka_conf_set_opaque(conf.get(), failures);
    test::KafkaHandle client(
        rd_kafka_new(RD_KAFKA_PRODUCER, conf.get(), error.data(), error.size()), &rd_kafka_destroy);
    if (!client)
        throw std::runtime_error(error.data());
    conf.release(); // NOLINT(bugprone-unused-return-value): the client owns it now
    return client;
}

class Producer
{
public:
    explicit Producer(const std::string &bootstrap) : client_(make_client(bootstrap, &failures_)) {}
    ~Producer()
    {
        for (const auto &[type, topic] : topics_)
            rd_kafka_topic_destroy(topic);
    }
    Producer(const Producer &) = delete;
    Producer &operator=(const Producer &) = delete;

    void produce(const PGresult *rows, int row)
    {
        rd_kafka_topic_t *topic = topic_of(std::string(field(rows, row, kAggregateType)));
        const std::string_view key = field(rows, row, kAggregateId);
        const std::string_view value = field(rows, row, kPayload);
        rd_kafka_headers_t *headers = headers_of(rows, row);
        const rd_kafka_resp_err_t error = rd_kafka_producev(
            client_.get(), RD_KAFKA_VTYPE_RKT, topic, RD_KAFKA_VTYPE_KEY, key.data(), key.size(),
            RD_KAFKA_VTYPE_VALUE, value.data(), value.size(), RD_KAFKA_VTYPE_MSGFLAGS,
            RD_KAFKA_MSG_F_COPY, RD_KAFKA_VTYPE_HEADERS, headers, RD_KAFKA_VTYPE_END);
        if (error == RD_KAFKA_RESP_ERR_NO_ERROR)
            return;
        rd_kafka_headers_destroy(headers);
        throw std::runtime_error(std::string("the polling relay: ") + rd_kafka_err2str(error));
    }

    // Waits until everything is acknowledged.
    void flush()
    {
        const rd_kafka_resp_err_t error = rd_kafka_flush(client_.get(), kFlushMs);
        if (error != RD_KAFKA_RESP_ERR_NO_ERROR || failures_ > 0)
            throw std::runtime_error("the polling relay's records are not acknowledged");
    }

private:
    rd_kafka_topic_t *topic_of(const std::string &type)
    {
        rd_kafka_topic_t *&topic = topics_[type];
        if (topic == nullptr)
            topic = rd_kafka_topic_new(client_.get(), (kTopicPrefix + type).c_str(), nullptr);
        return topic;
    }

    static rd_kafka_headers_t *headers_of(const PGresult *rows, int row)
    {
        rd_kafka_headers_t *headers = rd_kafka_headers_new(4);
        const auto add = [headers](std::string_view name, std::string_view value)
        {
            rd_kafka_header_add(headers, name.data(), static_cast<ssize_t>(name.size()),
                                value.data(), static_cast<ssize_t>(value.size()));
        };
        add("id", field(rows, row, kId));
        add("event_type", field(rows, row, kType));
        add("aggregate_type", field(rows, row, kAggregateType));
        add("created_at", iso_time(field(rows, row, kCreatedAt)));
        return headers;
    }

    int failures_ = 0; // counted by the client, so there before it and after it
    test::KafkaHandle client_;
    std::map<std::string, rd_kafka_topic_t *> topics_;
};

// One transaction; says how many rows there were.
int
publish_batch(Connection &db, Producer &producer, const std::string &limit)
{
    db.run("begin");
    const PgResult rows = db.call("rows", limit, PGRES_TUPLES_OK);
    const int count = PQntuples(rows.get());
    std::string ids = "{";
    for (int row = 0; row < count; row++)
    {
        producer.produce(rows.get(), row);
        ids.append(row > 0 ? "," : "").append(field(rows.get(), row, kId));
    }
    if (count > 0)
    {
        producer.flush();
        db.call("mark", ids + "}", PGRES_COMMAND_OK);
    }
    db.run("commit");
    return count;
}

} // namespace

std::string
polling_title(const PollingOptions &options)
{
    return fmt::format("polling relay, {} worker{}", options.workers,
                       options.workers == 1 ? "" : "s");
}

std::string
polling_settings(const PollingOptions &options)
{
    return fmt::format("at most {} rows in a transaction, {} ms until it looks again when there "
                       "were none, a producer as the relay's",
                       options.batch, options.idle_ms);
}

void
run_polling_relay(const PollingOptions &options)
{
    std::atomic<bool> ended{false};
    const auto work = [&](int worker)
    {
        if (worker == options.workers) // none: the thread that waits for the end
        {
            std::cin.get();
            ended = true;
            return;
        }
        try
        {
            Connection db(options.conninfo);
            Producer producer(options.bootstrap);
            const std::string limit = std::to_string(options.batch);
            while (!ended)
                if (publish_batch(db, producer, limit) == 0)
                    std::this_thread::sleep_for(std::chrono::milliseconds(options.idle_ms));
        }
        catch (const std::exception &error)
        {
            // The others would continue without it, and the figures would be those of fewer
            // workers.
            std::cerr << error.what() << std::endl;
            std::_Exit(1);
        }
    };
    run_threads(options.workers + 1, work);
}

std::unique_ptr<test::Process>
start_polling_relay(Servers &servers, const Database &database, const PollingOptions &options)
{
    test::Command command(
        {"/proc/self/exe", "polling-relay", "--conninfo", database.conninfo(), "--bootstrap",
         servers.kafka.bootstrap(), "--workers", std::to_string(options.workers), "--batch",
         std::to_string(options.batch), "--idle-ms", std::to_string(options.idle_ms)});
    command.keep_stdin_open = true;
    return std::make_unique<test::Process>(command);
}

} // namespace outbox::bench
