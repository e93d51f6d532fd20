#include "kafka_client.h"

#include "errors.h"

#include "bgworker/sinks/signals_blocked.h"
#include "extension/core/kafka_properties.h"

#include <algorithm>
#include <future>
#include <thread>

namespace outbox::ctl
{

namespace
{

constexpr auto kEndLimit = Milliseconds(1000);
constexpr int kSliceMs = 200; // librdkafka waits no longer than that before Ctrl-C is looked for

bool lingering = false;

struct Default
{
    const char *name;
    const char *value;
};

constexpr Default kDefaults[] = {
    {"client.id", "outboxctl"},
    {"fetch.wait.max.ms", "100"},
    {"socket.nagle.disable", "true"},
    {"reconnect.backoff.max.ms", "2000"},
    {"allow.auto.create.topics", "false"},
    // What is read and not yet printed.
    {"queued.max.messages.kbytes", "8192"},
    {"topic.metadata.refresh.interval.ms", "5000"},
};

void
set(rd_kafka_conf_t *config, const KafkaSource &source, const Property &property)
{
    char text[512];
    const rd_kafka_conf_res_t result =
        rd_kafka_conf_set(config, property.name.c_str(), property.value.c_str(), text, sizeof text);
    if (result == RD_KAFKA_CONF_OK)
        return;
    // librdkafka quotes the value.
    const bool shown =
        !is_secret(property.name) && (!property.from_file || result == RD_KAFKA_CONF_UNKNOWN);
    const std::string reason = shown ? source.masked(text) : "its value is refused";
    throw Error(kFailed, "Kafka property \"" + property.name + "\": " + reason,
                "librdkafka's CONFIGURATION.md lists the properties and their values.");
}

std::string
copy_of(const void *bytes, std::size_t size)
{
    return {static_cast<const char *>(bytes), size};
}

void
add_headers(const rd_kafka_message_t *message, KafkaRecord &record)
{
    rd_kafka_headers_t *headers = nullptr;
    if (rd_kafka_message_headers(message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return; // it has none
    const char *name = nullptr;
    const void *value = nullptr;
    std::size_t size = 0;
    for (std::size_t i = 0;
         rd_kafka_header_get_all(headers, i, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR;
         i++)
        record.headers.emplace_back(name, value == nullptr
                                              ? std::nullopt
                                              : std::optional<std::string>(copy_of(value, size)));
}

KafkaRecord
to_record(const rd_kafka_message_t *message)
{
    KafkaRecord record;
    record.topic = rd_kafka_topic_name(message->rkt);
    record.partition = message->partition;
    record.offset = message->offset;
    rd_kafka_timestamp_type_t type = RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
    const int64_t timestamp = rd_kafka_message_timestamp(message, &type);
    if (type != RD_KAFKA_TIMESTAMP_NOT_AVAILABLE)
        record.timestamp_ms = timestamp;
    if (message->key != nullptr)
        record.key = copy_of(message->key, message->key_len);
    if (message->payload != nullptr)
        record.value = copy_of(message->payload, message->len);
    add_headers(message, record);
    return record;
}

TopicView
to_view(const rd_kafka_metadata_topic_t &topic)
{
    TopicView view;
    view.name = topic.topic;
    if (topic.err != RD_KAFKA_RESP_ERR_NO_ERROR)
        view.error = rd_kafka_err2name(topic.err);
    view.partitions = topic.partition_cnt;
    for (int i = 0; i < topic.partition_cnt; i++)
    {
        const rd_kafka_metadata_partition_t &partition = topic.partitions[i];
        view.without_leader += partition.leader < 0 ? 1 : 0;
        const auto least = [i](int former, int now)
        { return i == 0 ? now : std::min(former, now); };
        view.fewest_replicas = least(view.fewest_replicas, partition.replica_cnt);
        view.fewest_in_sync = least(view.fewest_in_sync, partition.isr_cnt);
    }
    return view;
}

// librdkafka waits for its threads, and one of them may sit in a name look-up for as long as the
// resolver likes.
bool
destroyed_in_time(rd_kafka_t *client)
{
    const SignalsBlocked blocked;
    const auto done = std::make_shared<std::promise<void>>();
    const std::future<void> end = done->get_future();
    std::thread(
        [client, done]
        {
            rd_kafka_destroy(client);
            done->set_value();
        })
        .detach();
    return end.wait_for(kEndLimit) == std::future_status::ready;
}

} // namespace

std::optional<std::string>
KafkaRecord::header(const std::string &name) const
{
    for (const auto &[found, text] : headers)
        if (found == name)
            return text;
    return std::nullopt;
}

KafkaClient::KafkaClient(const KafkaSource &source) : source_(source)
{
    std::unique_ptr<rd_kafka_conf_t, decltype(&rd_kafka_conf_destroy)> config(
        rd_kafka_conf_new(), &rd_kafka_conf_destroy);
    for (const Default &item : kDefaults)
        set(config.get(), source, {item.name, item.value});
    set(config.get(), source, {"bootstrap.servers", source.bootstrap});
    for (const Property &property : source.properties)
        set(config.get(), source, property);
    // Its log would go to stderr, secrets and all.
    rd_kafka_conf_set_log_cb(config.get(), nullptr);
    rd_kafka_conf_set_error_cb(config.get(), note_error);
    rd_kafka_conf_set_opaque(config.get(), this);
    char text[512];
    client_ = rd_kafka_new(RD_KAFKA_CONSUMER, config.get(), text, sizeof text);
    if (client_ == nullptr)
        throw Error(kFailed, "Kafka's settings are not usable: " + source.masked(text));
    (void) config.release(); // the client owns it now
    queue_ = rd_kafka_queue_new(client_);
}

KafkaClient::~KafkaClient()
{
    for (const auto &[name, topic] : topics_)
        rd_kafka_topic_destroy(topic);
    rd_kafka_queue_destroy(queue_);
    lingering = !destroyed_in_time(client_) || lingering;
}

bool
KafkaClient::lingers()
{
    return lingering;
}

void
KafkaClient::note_error(rd_kafka_t * /*client*/, int error, const char *reason, void *self)
{
    auto &client = *static_cast<KafkaClient *>(self);
    // The first trouble says most; that all brokers are down is what it leads to.
    if (error == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN)
        client.all_down_ = true;
    else if (client.trouble_.empty())
        client.trouble_ = std::string(rd_kafka_err2name(static_cast<rd_kafka_resp_err_t>(error))) +
                          ": " + client.source_.masked(reason);
}

const std::string &
KafkaClient::last_trouble()
{
    (void) rd_kafka_poll(client_, 0); // calls note_error()
    return trouble_;
}

std::optional<ClusterView>
KafkaClient::look(Milliseconds limit)
{
    const auto deadline = Clock::now() + limit;
    all_down_ = false;
    do
    {
        const rd_kafka_metadata_t *metadata = nullptr;
        const rd_kafka_resp_err_t error =
            rd_kafka_metadata(client_, 1, nullptr, &metadata, kSliceMs);
        if (error == RD_KAFKA_RESP_ERR_NO_ERROR)
        {
            ClusterView view;
            view.brokers = metadata->broker_cnt;
            for (int i = 0; i < metadata->topic_cnt; i++)
                view.topics[metadata->topics[i].topic] = to_view(metadata->topics[i]);
            rd_kafka_metadata_destroy(metadata);
            return view;
        }
        (void) rd_kafka_poll(client_, 0);
        if (Interrupts::active() && wait_for(-1, 0, Clock::now()) == Woken::kStop)
            stop_here();
    } while (!all_down_ && Clock::now() < deadline);
    return std::nullopt;
}

bool
KafkaClient::follow(const TopicView &topic, bool from_beginning, Milliseconds limit)
{
    int &followed = followed_[topic.name];
    if (followed >= topic.partitions)
        return true;
    std::unique_ptr<rd_kafka_topic_partition_list_t,
                    decltype(&rd_kafka_topic_partition_list_destroy)>
        places(rd_kafka_topic_partition_list_new(topic.partitions),
               &rd_kafka_topic_partition_list_destroy);
    for (int partition = followed; partition < topic.partitions; partition++)
        rd_kafka_topic_partition_list_add(places.get(), topic.name.c_str(), partition)->offset =
            from_beginning ? RD_KAFKA_OFFSET_BEGINNING : RD_KAFKA_OFFSET_END;
    // Asking for the offset of the end gives it as a number, so that nothing falls between asking
    // and reading.
    if (!from_beginning &&
        rd_kafka_offsets_for_times(client_, places.get(), static_cast<int>(limit.count())) !=
            RD_KAFKA_RESP_ERR_NO_ERROR)
        return false;
    for (int i = 0; i < places->cnt; i++)
        if (places->elems[i].err != RD_KAFKA_RESP_ERR_NO_ERROR)
            return false;
    rd_kafka_topic_t *&handle = topics_[topic.name];
    if (handle == nullptr)
        handle = rd_kafka_topic_new(client_, topic.name.c_str(), nullptr);
    for (int i = 0; handle != nullptr && i < places->cnt; i++)
    {
        if (rd_kafka_consume_start_queue(handle, places->elems[i].partition,
                                         places->elems[i].offset, queue_) != 0)
            throw Error(kFailed, "cannot read the topic " + topic.name + ": " +
                                     rd_kafka_err2str(rd_kafka_last_error()));
        followed++;
    }
    return handle != nullptr;
}

bool
KafkaClient::read(Milliseconds limit, const std::function<void(const KafkaRecord &)> &record,
                  const std::function<void(const std::string &, const std::string &)> &error)
{
    (void) rd_kafka_poll(client_, 0);
    const std::unique_ptr<rd_kafka_message_t, decltype(&rd_kafka_message_destroy)> message(
        rd_kafka_consume_queue(queue_, static_cast<int>(limit.count())), &rd_kafka_message_destroy);
    if (!message)
        return false;
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR)
        record(to_record(message.get()));
    else
        error(message->rkt == nullptr ? "" : rd_kafka_topic_name(message->rkt),
              std::string(rd_kafka_err2name(message->err)) + ": " +
                  source_.masked(rd_kafka_message_errstr(message.get())));
    return true;
}

} // namespace outbox::ctl
