#include "harness.h"

#include <atomic>
#include <cstdio>

namespace outbox::test
{

outbox::ConsumerOptions
quick_options(const std::string &consumer, const std::string &topic, const std::string &conninfo)
{
    outbox::ConsumerOptions options;
    options.consumer = unique_name(consumer + "-");
    options.bootstrap_servers = kafka().bootstrap();
    options.topics = {topic};
    options.conninfo = conninfo;
    options.backoff_initial = Milliseconds(10);
    options.backoff_max = Milliseconds(200);
    options.commit_interval = Milliseconds(50);
    options.kafka_config = {{"session.timeout.ms", "10000"},
                            {"heartbeat.interval.ms", "200"},
                            {"fetch.wait.max.ms", "50"},
                            {"reconnect.backoff.max.ms", "500"}};
    return options;
}

RunningConsumer::RunningConsumer(outbox::ConsumerOptions options, outbox::Handler handler, Run run)
{
    options.log = [this](outbox::LogLevel, const std::string &line)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        log_ += line + "\n";
    };
    consumer_ = std::make_unique<outbox::Consumer>(std::move(options), std::move(handler));
    thread_ = std::thread(
        [this, run]
        {
            std::exception_ptr failure;
            try
            {
                run(*consumer_);
            }
            catch (...)
            {
                failure = std::current_exception();
            }
            const std::lock_guard<std::mutex> lock(mutex_);
            failure_ = failure;
            ended_ = true;
        });
}

RunningConsumer::~RunningConsumer()
{
    consumer_->stop();
    thread_.join();
    if (testing::Test::HasFailure())
        std::printf("log of the consumer:\n%s\n", log_.c_str());
}

std::exception_ptr
RunningConsumer::join(Milliseconds limit)
{
    const auto ended = [&]
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        return ended_;
    };
    EXPECT_TRUE(wait_until(limit, ended)) << "the consumer does not end";
    const std::lock_guard<std::mutex> lock(mutex_);
    return failure_;
}

void
RunningConsumer::finish()
{
    stop();
    const std::exception_ptr failure = join();
    try
    {
        if (failure)
            std::rethrow_exception(failure);
    }
    catch (const std::exception &error)
    {
        ADD_FAILURE() << "the consumer ended with: " << error.what();
    }
}

bool
RunningConsumer::logged(const std::string &text) const
{
    return log().find(text) != std::string::npos;
}

std::string
RunningConsumer::log() const
{
    const std::lock_guard<std::mutex> lock(mutex_);
    return log_;
}

RecordWriter::RecordWriter(const std::string &bootstrap)
    : client_(make_kafka_client(
          RD_KAFKA_PRODUCER, bootstrap,
          {{"partitioner", "murmur2_random"}, {"linger.ms", "0"}, {"enable.idempotence", "true"}}))
{
}

void
RecordWriter::send(const std::string &topic, const std::string &key, const std::string &value,
                   const std::string &id, const std::vector<outbox::Header> &headers,
                   int32_t partition)
{
    rd_kafka_headers_t *list = rd_kafka_headers_new(headers.size() + 1);
    if (!id.empty())
        rd_kafka_header_add(list, "id", -1, id.data(), static_cast<ssize_t>(id.size()));
    for (const outbox::Header &header : headers)
        rd_kafka_header_add(list, header.name.c_str(), -1,
                            header.value ? header.value->data() : nullptr,
                            header.value ? static_cast<ssize_t>(header.value->size()) : 0);
    for (;;)
    {
        const rd_kafka_resp_err_t error = rd_kafka_producev(
            client_.get(), RD_KAFKA_VTYPE_TOPIC, topic.c_str(), RD_KAFKA_VTYPE_PARTITION, partition,
            RD_KAFKA_VTYPE_MSGFLAGS, RD_KAFKA_MSG_F_COPY, RD_KAFKA_VTYPE_KEY, key.data(),
            key.size(), RD_KAFKA_VTYPE_VALUE, const_cast<char *>(value.data()), value.size(),
            RD_KAFKA_VTYPE_HEADERS, list, RD_KAFKA_VTYPE_END);
        if (error == RD_KAFKA_RESP_ERR_NO_ERROR)
            return;
        if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL)
            throw std::runtime_error(std::string("cannot write: ") + rd_kafka_err2str(error));
        rd_kafka_poll(client_.get(), 10);
    }
}

void
RecordWriter::flush()
{
    if (rd_kafka_flush(client_.get(), 30000) != RD_KAFKA_RESP_ERR_NO_ERROR)
        throw std::runtime_error("Kafka does not take the records");
}

void
RecordWriter::write(const std::string &topic, const std::string &key, const std::string &value,
                    const std::string &id, const std::vector<outbox::Header> &headers,
                    int32_t partition)
{
    send(topic, key, value, id, headers, partition);
    flush();
}

std::string
event_id(int number)
{
    char text[40];
    (void) std::snprintf(text, sizeof text, "00000000-0000-7000-8000-%012d", number);
    return text;
}

namespace
{

constexpr int kAskMs = 5000;

// Where the next record of the partition will go.
std::optional<int64_t>
end_of(rd_kafka_t *client, const std::string &topic, int partition)
{
    int64_t low = 0;
    int64_t high = 0;
    if (rd_kafka_query_watermark_offsets(client, topic.c_str(), partition, &low, &high, kAskMs) !=
        RD_KAFKA_RESP_ERR_NO_ERROR)
        return std::nullopt;
    return high;
}

} // namespace

std::optional<int64_t>
records_in(const std::string &bootstrap, const std::string &topic)
{
    const KafkaHandle client = make_kafka_client(RD_KAFKA_CONSUMER, bootstrap, {});
    const int partitions = partition_count(client.get(), topic);
    int64_t records = 0;
    for (int i = 0; i < partitions; ++i)
    {
        const std::optional<int64_t> end = end_of(client.get(), topic, i);
        if (!end)
            return std::nullopt;
        records += *end;
    }
    return partitions > 0 ? std::optional(records) : std::nullopt;
}

std::optional<int64_t>
group_lag(const std::string &bootstrap, const std::string &group, const std::string &topic)
{
    const KafkaHandle client =
        make_kafka_client(RD_KAFKA_CONSUMER, bootstrap, {{"group.id", group}});
    const int partitions = partition_count(client.get(), topic);
    if (partitions == 0)
        return std::nullopt;
    const std::unique_ptr<rd_kafka_topic_partition_list_t,
                          decltype(&rd_kafka_topic_partition_list_destroy)>
        list(rd_kafka_topic_partition_list_new(partitions), &rd_kafka_topic_partition_list_destroy);
    for (int i = 0; i < partitions; ++i)
        rd_kafka_topic_partition_list_add(list.get(), topic.c_str(), i);
    if (rd_kafka_committed(client.get(), list.get(), kAskMs) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return std::nullopt;
    int64_t lag = 0;
    for (int i = 0; i < partitions; ++i)
    {
        const std::optional<int64_t> end = end_of(client.get(), topic, i);
        if (!end)
            return std::nullopt;
        lag += *end - std::max<int64_t>(list->elems[i].offset, 0);
    }
    return lag;
}

std::optional<int>
group_members(const std::string &bootstrap, const std::string &group)
{
    const KafkaHandle client = make_kafka_client(RD_KAFKA_CONSUMER, bootstrap, {});
    const rd_kafka_group_list *list = nullptr;
    if (rd_kafka_list_groups(client.get(), group.c_str(), &list, kAskMs) !=
        RD_KAFKA_RESP_ERR_NO_ERROR)
        return std::nullopt;
    const std::unique_ptr<const rd_kafka_group_list, decltype(&rd_kafka_group_list_destroy)> owner(
        list, &rd_kafka_group_list_destroy);
    return list->group_cnt == 0 ? 0 : list->groups[0].member_cnt;
}

std::string
run_sql(PGconn *connection, const std::string &sql)
{
    const std::unique_ptr<PGresult, decltype(&PQclear)> result(PQexec(connection, sql.c_str()),
                                                               &PQclear);
    const ExecStatusType status = PQresultStatus(result.get());
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
        return PQntuples(result.get()) > 0 ? PQgetvalue(result.get(), 0, 0) : "";
    const char *sqlstate = PQresultErrorField(result.get(), PG_DIAG_SQLSTATE);
    throw outbox::DatabaseError(PQerrorMessage(connection),
                                sqlstate == nullptr ? "08006" : sqlstate);
}

Scene::Scene(PgCluster &of)
    : server(of), database(of), db(database.connect()), topic(unique_name("consumed-"))
{
    kafka().create_topic(topic);
    kafka().create_topic(topic + ".dlq");
    db.exec("create table effects (event_id uuid, key text)");
}

outbox::ConsumerOptions
Scene::options() const
{
    return quick_options("group", topic, server.conninfo(database.name()));
}

std::vector<Record>
Scene::dead_letters(size_t count) const
{
    Consumer reader(kafka().bootstrap(), {topic + ".dlq"});
    EXPECT_TRUE(reader.read_count(count, kSoon));
    return reader.records();
}

void
number_effects(Db &db)
{
    db.exec("alter table effects add n bigserial");
}

int
misplaced_effects(Db &db)
{
    return std::stoi(db.value("select count(*) from (select event_id < lag(event_id) over"
                              " (partition by key order by n) as wrong from effects) as x"
                              " where wrong"));
}

std::vector<std::string>
with_other_settings(std::vector<std::string> statements)
{
    for (const char *setting :
         {"set local role ROLE", "set role ROLE", "set local session authorization ROLE",
          "set local search_path = pg_temp", "set search_path = pg_temp",
          "select set_config('app.tenant', 'seven', true)"})
        statements.emplace_back(setting);
    return statements;
}

void
replace(std::string &text, const std::string &what, const std::string &with)
{
    const size_t at = text.find(what);
    if (at != std::string::npos)
        text.replace(at, what.size(), with);
}

void
insert_effect(PGconn *transaction, const outbox::Record &record)
{
    run_sql(transaction, "insert into effects values ('" + record.event_id + "', '" +
                             record.key.value_or("") + "')");
}

void
expect_stop_keeps_the_effect(outbox::OffsetPolicy offsets)
{
    Scene scene;
    scene.writer.write(scene.topic, "k", "{}", event_id(1));
    scene.writer.write(scene.topic, "k", "{}", event_id(2));
    std::atomic<bool> in_handler{false};
    std::atomic<bool> go_on{false};
    outbox::ConsumerOptions options = scene.options();
    options.offsets = offsets;
    RunningConsumer consumer(options,
                             [&](PGconn *transaction, const outbox::Record &record)
                             {
                                 in_handler = true;
                                 wait_until(kSoon, [&] { return go_on.load(); });
                                 insert_effect(transaction, record);
                             });
    ASSERT_TRUE(wait_until(kSoon, [&] { return in_handler.load(); }));
    consumer.stop();
    go_on = true;
    EXPECT_FALSE(consumer.join());
    EXPECT_EQ(scene.effects(), 1);
    EXPECT_EQ(group_lag(kafka().bootstrap(), options.consumer, scene.topic), 1);
}

} // namespace outbox::test
