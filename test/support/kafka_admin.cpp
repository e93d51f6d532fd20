#include "kafka_admin.h"

#include <array>
#include <memory>
#include <stdexcept>

#include "kafka_client.h"
#include "wait.h"

namespace outbox::test
{

namespace
{

constexpr int kLimitMs = 30000;

void
check(rd_kafka_resp_err_t code, const char *text, const std::string &what)
{
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        throw std::runtime_error("cannot " + what + ": " +
                                 (text != nullptr ? text : rd_kafka_err2str(code)));
}

// One administrator's connection and the answer to the one request that it makes.
class Admin
{
public:
    explicit Admin(const std::string &bootstrap)
        : client_(make_kafka_client(RD_KAFKA_PRODUCER, bootstrap)),
          queue_(rd_kafka_queue_new(client_.get()), &rd_kafka_queue_destroy),
          answer_(nullptr, &rd_kafka_event_destroy)
    {
    }

    rd_kafka_t *client() { return client_.get(); }
    rd_kafka_queue_t *queue() { return queue_.get(); }

    rd_kafka_event_t *answer(const std::string &what)
    {
        answer_.reset(rd_kafka_queue_poll(queue_.get(), kLimitMs));
        if (!answer_)
            throw std::runtime_error("cannot " + what + ": no answer");
        check(rd_kafka_event_error(answer_.get()), rd_kafka_event_error_string(answer_.get()),
              what);
        return answer_.get();
    }

private:
    KafkaHandle client_;
    std::unique_ptr<rd_kafka_queue_t, decltype(&rd_kafka_queue_destroy)> queue_;
    std::unique_ptr<rd_kafka_event_t, decltype(&rd_kafka_event_destroy)> answer_;
};

void
allow(const std::string &bootstrap, const std::string &principal, const std::string &topic,
      rd_kafka_AclOperation_t operation)
{
    const std::string what = "let " + principal + " use " + topic;
    std::array<char, 512> error = {};
    std::unique_ptr<rd_kafka_AclBinding_t, decltype(&rd_kafka_AclBinding_destroy)> binding(
        rd_kafka_AclBinding_new(RD_KAFKA_RESOURCE_TOPIC, topic.c_str(),
                                RD_KAFKA_RESOURCE_PATTERN_LITERAL, principal.c_str(), "*",
                                operation, RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW, error.data(),
                                error.size()),
        &rd_kafka_AclBinding_destroy);
    if (!binding)
        throw std::invalid_argument(error.data());
    Admin admin(bootstrap);
    rd_kafka_AclBinding_t *list[] = {binding.get()};
    rd_kafka_CreateAcls(admin.client(), list, 1, nullptr, admin.queue());
    size_t count = 0;
    const rd_kafka_acl_result_t **results = rd_kafka_CreateAcls_result_acls(
        rd_kafka_event_CreateAcls_result(admin.answer(what)), &count);
    for (size_t i = 0; i < count; ++i)
        if (const rd_kafka_error_t *refusal = rd_kafka_acl_result_error(results[i]))
            check(rd_kafka_error_code(refusal), rd_kafka_error_string(refusal), what);
}

// Asks for all topics: to ask for this one could make it.
bool
knows_topic(rd_kafka_t *client, const std::string &topic)
{
    constexpr int kAllTopics = 1;
    const rd_kafka_metadata_t *metadata = nullptr;
    if (rd_kafka_metadata(client, kAllTopics, nullptr, &metadata, kLimitMs) !=
        RD_KAFKA_RESP_ERR_NO_ERROR)
        throw std::runtime_error("cannot list the topics");
    bool known = false;
    for (int i = 0; i < metadata->topic_cnt; ++i)
        known = known || topic == metadata->topics[i].topic;
    rd_kafka_metadata_destroy(metadata);
    return known;
}

} // namespace

void
set_topic_config(const std::string &bootstrap, const std::string &topic,
                 const std::map<std::string, std::string> &config)
{
    const std::string what = "set the config of " + topic;
    std::unique_ptr<rd_kafka_ConfigResource_t, decltype(&rd_kafka_ConfigResource_destroy)> resource(
        rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic.c_str()),
        &rd_kafka_ConfigResource_destroy);
    for (const auto &[name, value] : config)
        check(rd_kafka_ConfigResource_set_config(resource.get(), name.c_str(), value.c_str()),
              nullptr, what);
    Admin admin(bootstrap);
    rd_kafka_ConfigResource_t *list[] = {resource.get()};
    rd_kafka_AlterConfigs(admin.client(), list, 1, nullptr, admin.queue());
    size_t count = 0;
    const rd_kafka_ConfigResource_t **results = rd_kafka_AlterConfigs_result_resources(
        rd_kafka_event_AlterConfigs_result(admin.answer(what)), &count);
    for (size_t i = 0; i < count; ++i)
        check(rd_kafka_ConfigResource_error(results[i]),
              rd_kafka_ConfigResource_error_string(results[i]), what);
}

void
delete_topic(const std::string &bootstrap, const std::string &topic)
{
    const std::string what = "delete " + topic;
    std::unique_ptr<rd_kafka_DeleteTopic_t, decltype(&rd_kafka_DeleteTopic_destroy)> wanted(
        rd_kafka_DeleteTopic_new(topic.c_str()), &rd_kafka_DeleteTopic_destroy);
    Admin admin(bootstrap);
    rd_kafka_DeleteTopic_t *list[] = {wanted.get()};
    rd_kafka_DeleteTopics(admin.client(), list, 1, nullptr, admin.queue());
    size_t count = 0;
    const rd_kafka_topic_result_t **results = rd_kafka_DeleteTopics_result_topics(
        rd_kafka_event_DeleteTopics_result(admin.answer(what)), &count);
    for (size_t i = 0; i < count; ++i)
        check(rd_kafka_topic_result_error(results[i]),
              rd_kafka_topic_result_error_string(results[i]), what);
    if (!wait_until(Milliseconds(kLimitMs), [&] { return !knows_topic(admin.client(), topic); }))
        throw std::runtime_error("cannot " + what + ": it is still there");
}

void
delete_records(const std::string &bootstrap, const std::string &topic, int partition,
               int64_t before)
{
    const std::string what = "delete records of " + topic;
    using List = std::unique_ptr<rd_kafka_topic_partition_list_t,
                                 decltype(&rd_kafka_topic_partition_list_destroy)>;
    const List offsets(rd_kafka_topic_partition_list_new(1),
                       &rd_kafka_topic_partition_list_destroy);
    rd_kafka_topic_partition_list_add(offsets.get(), topic.c_str(), partition)->offset = before;
    std::unique_ptr<rd_kafka_DeleteRecords_t, decltype(&rd_kafka_DeleteRecords_destroy)> wanted(
        rd_kafka_DeleteRecords_new(offsets.get()), &rd_kafka_DeleteRecords_destroy);
    Admin admin(bootstrap);
    rd_kafka_DeleteRecords_t *list[] = {wanted.get()};
    rd_kafka_DeleteRecords(admin.client(), list, 1, nullptr, admin.queue());
    const rd_kafka_topic_partition_list_t *answer = rd_kafka_DeleteRecords_result_offsets(
        rd_kafka_event_DeleteRecords_result(admin.answer(what)));
    for (int i = 0; i < answer->cnt; ++i)
        check(answer->elems[i].err, nullptr, what);
}

void
allow_write(const std::string &bootstrap, const std::string &principal, const std::string &topic)
{
    allow_describe(bootstrap, principal, topic);
    allow(bootstrap, principal, topic, RD_KAFKA_ACL_OPERATION_WRITE);
}

void
allow_describe(const std::string &bootstrap, const std::string &principal, const std::string &topic)
{
    allow(bootstrap, principal, topic, RD_KAFKA_ACL_OPERATION_DESCRIBE);
}

} // namespace outbox::test
