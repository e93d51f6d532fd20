#include "failure.h"

#include "extension/core/verdict.h"

#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <iterator>
#include <string_view>

namespace outbox::kafka
{

namespace
{

struct Entry
{
    int code;
    FailureClass cls;
};

constexpr FailureClass kRetriable = FailureClass::retriable;
constexpr FailureClass kTopic = FailureClass::topic;
constexpr FailureClass kEvent = FailureClass::event;
constexpr FailureClass kFatal = FailureClass::fatal;

// Ordered by code. Only errors that a producer can meet are here; what is left out is an event's.
constexpr Entry kEntries[] = {
    {RD_KAFKA_RESP_ERR__BAD_MSG, kRetriable},
    {RD_KAFKA_RESP_ERR__DESTROY, kRetriable},
    {RD_KAFKA_RESP_ERR__FAIL, kRetriable},
    {RD_KAFKA_RESP_ERR__TRANSPORT, kRetriable},
    {RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE, kRetriable},
    {RD_KAFKA_RESP_ERR__RESOLVE, kRetriable},
    {RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, kRetriable},
    {RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION, kTopic},
    {RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, kTopic},
    {RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, kRetriable},
    {RD_KAFKA_RESP_ERR__TIMED_OUT, kRetriable},
    {RD_KAFKA_RESP_ERR__QUEUE_FULL, kRetriable},
    {RD_KAFKA_RESP_ERR__ISR_INSUFF, kRetriable},
    {RD_KAFKA_RESP_ERR__NODE_UPDATE, kRetriable},
    {RD_KAFKA_RESP_ERR__SSL, kRetriable},
    {RD_KAFKA_RESP_ERR__WAIT_COORD, kRetriable},
    {RD_KAFKA_RESP_ERR__IN_PROGRESS, kRetriable},
    {RD_KAFKA_RESP_ERR__PREV_IN_PROGRESS, kRetriable},
    {RD_KAFKA_RESP_ERR__AUTHENTICATION, kRetriable},
    {RD_KAFKA_RESP_ERR__OUTDATED, kRetriable},
    {RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE, kRetriable},
    {RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE, kFatal},
    {RD_KAFKA_RESP_ERR__WAIT_CACHE, kRetriable},
    {RD_KAFKA_RESP_ERR__INTR, kRetriable},
    {RD_KAFKA_RESP_ERR__PARTIAL, kRetriable},
    {RD_KAFKA_RESP_ERR__UNDERFLOW, kRetriable},
    {RD_KAFKA_RESP_ERR__RETRY, kRetriable},
    {RD_KAFKA_RESP_ERR__PURGE_QUEUE, kRetriable},
    {RD_KAFKA_RESP_ERR__PURGE_INFLIGHT, kRetriable},
    {RD_KAFKA_RESP_ERR__FATAL, kFatal},
    {RD_KAFKA_RESP_ERR__INCONSISTENT, kFatal},
    {RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE, kFatal},
    {RD_KAFKA_RESP_ERR__UNKNOWN_BROKER, kRetriable},
    {RD_KAFKA_RESP_ERR__FENCED, kFatal},

    {RD_KAFKA_RESP_ERR_NO_ERROR, FailureClass::none},
    {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, kTopic},
    {RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE, kRetriable},
    {RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, kRetriable},
    {RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT, kRetriable},
    {RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE, kRetriable},
    {RD_KAFKA_RESP_ERR_REPLICA_NOT_AVAILABLE, kRetriable},
    {RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION, kRetriable},
    {RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS, kRetriable},
    {RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE, kRetriable},
    {RD_KAFKA_RESP_ERR_NOT_COORDINATOR, kRetriable},
    {RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, kTopic},
    {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, kRetriable},
    {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND, kRetriable},
    {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, kTopic},
    {RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, kRetriable},
    // No event's fault: record times are never in the future by the clock of this server, and what
    // is sent again gets the time of its sending. The clocks differ, or the topic takes no old
    // ones.
    {RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP, kTopic},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_SASL_MECHANISM, kRetriable},
    {RD_KAFKA_RESP_ERR_ILLEGAL_SASL_STATE, kRetriable},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION, kRetriable},
    {RD_KAFKA_RESP_ERR_INVALID_PARTITIONS, kTopic},
    {RD_KAFKA_RESP_ERR_INVALID_REPLICATION_FACTOR, kTopic},
    {RD_KAFKA_RESP_ERR_INVALID_REPLICA_ASSIGNMENT, kTopic},
    {RD_KAFKA_RESP_ERR_INVALID_CONFIG, kTopic},
    {RD_KAFKA_RESP_ERR_NOT_CONTROLLER, kRetriable},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT, kTopic},
    {RD_KAFKA_RESP_ERR_POLICY_VIOLATION, kTopic},
    {RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, kFatal},
    {RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH, kRetriable},
    {RD_KAFKA_RESP_ERR_SECURITY_DISABLED, kRetriable},
    {RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR, kRetriable},
    {RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED, kRetriable},
    {RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID, kFatal},
    {RD_KAFKA_RESP_ERR_REASSIGNMENT_IN_PROGRESS, kRetriable},
    {RD_KAFKA_RESP_ERR_FENCED_LEADER_EPOCH, kRetriable},
    {RD_KAFKA_RESP_ERR_UNKNOWN_LEADER_EPOCH, kRetriable},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_COMPRESSION_TYPE, kTopic},
    {RD_KAFKA_RESP_ERR_STALE_BROKER_EPOCH, kRetriable},
    {RD_KAFKA_RESP_ERR_OFFSET_NOT_AVAILABLE, kRetriable},
    {RD_KAFKA_RESP_ERR_PREFERRED_LEADER_NOT_AVAILABLE, kRetriable},
    {RD_KAFKA_RESP_ERR_ELIGIBLE_LEADERS_NOT_AVAILABLE, kRetriable},
    {RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED, kRetriable},
    {RD_KAFKA_RESP_ERR_PRODUCER_FENCED, kFatal},
};

constexpr bool
is_ordered() noexcept
{
    for (std::size_t i = 1; i < std::size(kEntries); i++)
        if (kEntries[i - 1].code >= kEntries[i].code)
            return false;
    return true;
}
static_assert(is_ordered(), "classify() searches by halves");

template <std::size_t N>
void
copy_cut(char (&to)[N], std::string_view from) noexcept
{
    const std::string_view fitting = clip(from, N - 1);
    to[fitting.copy(to, N - 1)] = '\0';
}

__attribute__((format(printf, 3, 0))) void
fill(Failure &failure, int code, const char *format, va_list arguments) noexcept
{
    char text[2 * sizeof failure.text];
    if (std::vsnprintf(text, sizeof text, format, arguments) < 0)
        text[0] = '\0';
    failure = Failure();
    failure.cls = classify(code);
    failure.code = code;
    failure.consequence =
        code == RD_KAFKA_RESP_ERR__PURGE_QUEUE || code == RD_KAFKA_RESP_ERR__PURGE_INFLIGHT ||
        code == RD_KAFKA_RESP_ERR__FATAL || code == RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE;
    failure.summary = code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN;
    failure.too_large = code == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
    copy_cut(failure.name, rd_kafka_err2name(static_cast<rd_kafka_resp_err_t>(code)));
    copy_cut(failure.text, text);
}

} // namespace

FailureClass
classify(int code) noexcept
{
    const Entry *end = std::end(kEntries);
    const Entry *found =
        std::lower_bound(std::begin(kEntries), end, code,
                         [](const Entry &entry, int wanted) { return entry.code < wanted; });
    return found != end && found->code == code ? found->cls : kEvent;
}

void
describe(Failure &failure, int code, const char *format, ...) noexcept
{
    va_list arguments;
    va_start(arguments, format);
    fill(failure, code, format, arguments);
    va_end(arguments);
}

void
describe_config(Failure &failure, const char *hint, const char *format, ...) noexcept
{
    va_list arguments;
    va_start(arguments, format);
    fill(failure, RD_KAFKA_RESP_ERR__INVALID_ARG, format, arguments);
    va_end(arguments);
    failure.cls = FailureClass::config;
    set_hint(failure, hint);
}

} // namespace outbox::kafka
