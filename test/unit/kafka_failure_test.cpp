#include "bgworker/sinks/kafka/failure.h"

#include <gtest/gtest.h>

#include <librdkafka/rdkafka.h>

#include <string>

namespace outbox::test
{

namespace
{

using kafka::classify;

struct Case
{
    rd_kafka_resp_err_t code;
    FailureClass cls;
};

TEST(KafkaFailure, EveryErrorThatARecordCanMeetHasItsClass)
{
    const Case cases[] = {
        {RD_KAFKA_RESP_ERR_NO_ERROR, FailureClass::none},

        {RD_KAFKA_RESP_ERR__TRANSPORT, FailureClass::retriable},
        {RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, FailureClass::retriable},
        {RD_KAFKA_RESP_ERR__RESOLVE, FailureClass::retriable},
        {RD_KAFKA_RESP_ERR__SSL, FailureClass::retriable},
        {RD_KAFKA_RESP_ERR__AUTHENTICATION, FailureClass::retriable},
        {RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, FailureClass::retriable},
        {RD_KAFKA_RESP_ERR__TIMED_OUT, FailureClass::retriable},
        {RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE, FailureClass::retriable},
        {RD_KAFKA_RESP_ERR__PURGE_QUEUE, FailureClass::retriable},
        {RD_KAFKA_RESP_ERR__PURGE_INFLIGHT, FailureClass::retriable},
        {RD_KAFKA_RESP_ERR__DESTROY, FailureClass::retriable},
        {RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE, FailureClass::retriable},
        {RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE, FailureClass::retriable},
        {RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, FailureClass::retriable},
        {RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT, FailureClass::retriable},
        {RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION, FailureClass::retriable},
        {RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS, FailureClass::retriable},
        {RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE, FailureClass::retriable},
        {RD_KAFKA_RESP_ERR_NOT_COORDINATOR, FailureClass::retriable},
        {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, FailureClass::retriable},
        {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND, FailureClass::retriable},
        {RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR, FailureClass::retriable},
        {RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED, FailureClass::retriable},
        {RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, FailureClass::retriable},
        {RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED, FailureClass::retriable},
        {RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH, FailureClass::retriable},

        {RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, FailureClass::topic},
        {RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION, FailureClass::topic},
        {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, FailureClass::topic},
        {RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, FailureClass::topic},
        {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, FailureClass::topic},
        {RD_KAFKA_RESP_ERR_INVALID_REPLICATION_FACTOR, FailureClass::topic},
        {RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT, FailureClass::topic},
        {RD_KAFKA_RESP_ERR_UNSUPPORTED_COMPRESSION_TYPE, FailureClass::topic},
        {RD_KAFKA_RESP_ERR_POLICY_VIOLATION, FailureClass::topic},

        {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, FailureClass::event},
        {RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, FailureClass::event},
        {RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE, FailureClass::event},
        {RD_KAFKA_RESP_ERR_INVALID_MSG, FailureClass::event},
        {RD_KAFKA_RESP_ERR_INVALID_RECORD, FailureClass::event},
        {RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP, FailureClass::topic},
        {RD_KAFKA_RESP_ERR__INVALID_ARG, FailureClass::event},
        {RD_KAFKA_RESP_ERR_UNKNOWN, FailureClass::event},

        {RD_KAFKA_RESP_ERR__FATAL, FailureClass::fatal},
        {RD_KAFKA_RESP_ERR__FENCED, FailureClass::fatal},
        {RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE, FailureClass::fatal},
        {RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, FailureClass::fatal},
        {RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID, FailureClass::fatal},
        {RD_KAFKA_RESP_ERR_PRODUCER_FENCED, FailureClass::fatal},
    };
    for (const Case &item : cases)
        EXPECT_STREQ(name_of(classify(item.code)), name_of(item.cls))
            << rd_kafka_err2name(item.code);
}

TEST(KafkaFailure, UnknownCodesAreTheEvents)
{
    EXPECT_EQ(classify(9999), FailureClass::event);
    EXPECT_EQ(classify(-9999), FailureClass::event);
}

TEST(KafkaFailure, TextsAreCutBetweenCharacters)
{
    Failure failure;
    std::string text(sizeof failure.text - 2, 'x');
    text += "\xC3\xA4\xC3\xA4";
    kafka::describe(failure, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, "%s", text.c_str());
    EXPECT_EQ(std::string(failure.text), std::string(sizeof failure.text - 2, 'x'));
    EXPECT_STREQ(failure.name, "MSG_SIZE_TOO_LARGE");
    EXPECT_EQ(failure.code, 10);
}

TEST(KafkaFailure, DescribingClearsWhatWasThere)
{
    Failure failure;
    kafka::describe_config(failure, "A hint.", "a reason");
    EXPECT_EQ(failure.cls, FailureClass::config);
    failure.possibly_persisted = true;
    kafka::describe(failure, RD_KAFKA_RESP_ERR__TRANSPORT, "gone");
    EXPECT_EQ(failure.cls, FailureClass::retriable);
    EXPECT_STREQ(failure.hint, "");
    EXPECT_FALSE(failure.possibly_persisted);
}

} // namespace

} // namespace outbox::test
