#include "consumer_process.h"

#include <array>
#include <csignal>
#include <cstdio>
#include <stdexcept>

#include "outbox/consumer.h"
#include "outbox/error.h"
#include "support/workspace.h"

namespace outbox::test
{

namespace
{

outbox::Consumer *the_consumer = nullptr;

void
on_sigterm(int /*number*/)
{
    the_consumer->stop();
}

void
make_effect(PGconn *transaction, const outbox::Record &record)
{
    const std::array<const char *, 3> values = {record.event_id.c_str(), record.key->c_str(),
                                                record.value->c_str()};
    PGresult *result =
        PQexecParams(transaction,
                     "with effect as (insert into effects values ($1::uuid, $2, ($3::jsonb ->> "
                     "'amount')::bigint)"
                     " returning key, amount)"
                     " insert into totals as t select key, amount from effect"
                     " on conflict (key) do update set amount = t.amount + excluded.amount",
                     3, nullptr, values.data(), nullptr, nullptr, 0);
    const std::string message =
        PQresultStatus(result) == PGRES_COMMAND_OK ? "" : PQresultErrorMessage(result);
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const std::string code = sqlstate == nullptr ? "08006" : sqlstate;
    PQclear(result);
    if (!message.empty())
        throw outbox::DatabaseError(message, code);
}

} // namespace

int
consume(const std::vector<std::string> &arguments)
{
    outbox::ConsumerOptions options;
    options.conninfo = arguments.at(0);
    options.bootstrap_servers = arguments.at(1);
    options.consumer = arguments.at(2);
    options.topics = {arguments.at(3)};
    options.offsets = arguments.at(4) == "postgres" ? outbox::OffsetPolicy::postgres
                                                    : outbox::OffsetPolicy::kafka;
    options.batch = std::stoul(arguments.at(5));
    options.backoff_max = std::chrono::milliseconds(500);
    options.kafka_config = {{"session.timeout.ms", "1500"},
                            {"heartbeat.interval.ms", "300"},
                            {"reconnect.backoff.max.ms", "500"},
                            {"fetch.wait.max.ms", "50"}};
    options.log = [](outbox::LogLevel, const std::string &line)
    { std::fprintf(stderr, "%s\n", line.c_str()); };
    outbox::Consumer consumer(options, &make_effect);
    the_consumer = &consumer;
    std::signal(SIGTERM, &on_sigterm);
    consumer.run();
    return 0;
}

std::unique_ptr<Process>
start_consumer(const ConsumerProcessOptions &options)
{
    Command command({"/proc/self/exe", "consume", options.conninfo, options.bootstrap,
                     options.group, options.topic, options.own_offsets ? "postgres" : "kafka",
                     std::to_string(options.batch)});
    command.output = new_log("consumer");
    return std::make_unique<Process>(command);
}

} // namespace outbox::test
