#include "dead_letters.h"

#include "names.h"

#include "outbox/error.h"
#include "text.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace outbox::v0::detail
{

namespace
{

constexpr std::size_t kMaxErrorBytes = 2000;
constexpr std::size_t kShortErrorBytes = 100;
constexpr const char *kOwnHeaders[] = {
    "dlq_error",        "dlq_attempts",         "dlq_consumer",
    "dlq_source_topic", "dlq_source_partition", "dlq_source_offset"};

bool
is_own(const Header &header)
{
    return std::any_of(std::begin(kOwnHeaders), std::end(kOwnHeaders),
                       [&](const char *name) { return header.name == name; });
}

void *
to_opaque(std::uintptr_t number)
{
    return reinterpret_cast<void *>(number); // NOLINT(performance-no-int-to-ptr)
}

} // namespace

std::vector<Header>
dead_letter_headers(const Record &record, const DeadLetter &letter)
{
    std::vector<Header> headers;
    for (const Header &header : record.headers)
        if (!is_own(header))
            headers.push_back(header);
    headers.push_back({"dlq_error", clip(letter.error, kMaxErrorBytes)});
    headers.push_back({"dlq_attempts", std::to_string(letter.attempts)});
    headers.push_back({"dlq_consumer", letter.consumer});
    headers.push_back({"dlq_source_topic", record.topic});
    headers.push_back({"dlq_source_partition", std::to_string(record.partition)});
    headers.push_back({"dlq_source_offset", std::to_string(record.offset)});
    return headers;
}

DeadLetters::DeadLetters(std::string bootstrap_servers, KafkaProperties properties,
                         std::string suffix, Milliseconds timeout, const Log &log)
    : bootstrap_servers_(std::move(bootstrap_servers)), properties_(std::move(properties)),
      suffix_(std::move(suffix)), timeout_(timeout), log_(log)
{
}

DeadLetters::~DeadLetters()
{
    disconnect();
}

void
DeadLetters::on_report(rd_kafka_t * /*client*/, const rd_kafka_message_t *message, void *opaque)
{
    DeadLetters *self = static_cast<Opaque *>(opaque)->self;
    if (self != nullptr && reinterpret_cast<std::uintptr_t>(message->_private) == self->number_)
        self->report_ = {true, message->err};
}

void
DeadLetters::on_log(const rd_kafka_t *client, int /*level*/, const char *facility, const char *text)
{
    const DeadLetters *self = static_cast<const Opaque *>(rd_kafka_opaque(client))->self;
    if (self != nullptr)
        self->log_.info(std::string("librdkafka: ") + facility + ": " + text);
}

int
DeadLetters::on_resolve(const char *host, const char *service, const addrinfo *hints,
                        addrinfo **result, void *opaque)
{
    return static_cast<Opaque *>(opaque)->names.resolve(host, service, hints, result);
}

void
DeadLetters::disconnect() noexcept
{
    if (client_ == nullptr)
        return;
    opaque_->names.give_up();
    opaque_->self = nullptr;
    if (!end_->destroy(std::exchange(client_, nullptr), 0))
        log_.warning(kLeftBehind);
}

// Only when there is a letter to write: a client is threads and connections.
void
DeadLetters::connect()
{
    if (client_ != nullptr &&
        rd_kafka_fatal_error(client_, nullptr, 0) == RD_KAFKA_RESP_ERR_NO_ERROR)
        return;
    disconnect();
    opaque_.reset(new Opaque{{this}, {}});
    end_.emplace(opaque_);
    KafkaConfig config = make_dead_letter_config(bootstrap_servers_,
                                                 static_cast<int>(timeout_.count()), properties_);
    rd_kafka_conf_set_opaque(config.get(), opaque_.get());
    rd_kafka_conf_set_dr_msg_cb(config.get(), &on_report);
    rd_kafka_conf_set_log_cb(config.get(), &on_log);
    rd_kafka_conf_set_resolve_cb(config.get(), &on_resolve);
    client_ = make_client(RD_KAFKA_PRODUCER, std::move(config));
    const rd_kafka_resp_err_t result = rd_kafka_set_log_queue(client_, nullptr);
    if (result != RD_KAFKA_RESP_ERR_NO_ERROR)
        throw_kafka_error("no queue for log lines", result);
}

rd_kafka_resp_err_t
DeadLetters::produce(const std::string &topic, const Record &record,
                     const std::vector<Header> &headers)
{
    std::unique_ptr<rd_kafka_headers_t, decltype(&rd_kafka_headers_destroy)> list(
        rd_kafka_headers_new(headers.size()), &rd_kafka_headers_destroy);
    for (const Header &header : headers)
    {
        const rd_kafka_resp_err_t result = rd_kafka_header_add(
            list.get(), header.name.data(), static_cast<ssize_t>(header.name.size()),
            header.value ? header.value->data() : nullptr,
            header.value ? static_cast<ssize_t>(header.value->size()) : 0);
        if (result != RD_KAFKA_RESP_ERR_NO_ERROR)
            return result;
    }
    const auto bytes = [](const std::optional<std::string> &text)
    { return text ? const_cast<char *>(text->data()) : nullptr; };
    const auto size = [](const std::optional<std::string> &text)
    { return text ? text->size() : 0; };
    report_ = Report();
    ++number_;
    const rd_kafka_resp_err_t result = rd_kafka_producev(
        client_, RD_KAFKA_VTYPE_TOPIC, topic.c_str(), RD_KAFKA_VTYPE_MSGFLAGS, RD_KAFKA_MSG_F_COPY,
        RD_KAFKA_VTYPE_KEY, bytes(record.key), size(record.key), RD_KAFKA_VTYPE_VALUE,
        bytes(record.value), size(record.value), RD_KAFKA_VTYPE_HEADERS, list.get(),
        RD_KAFKA_VTYPE_OPAQUE, to_opaque(number_), RD_KAFKA_VTYPE_END);
    if (result == RD_KAFKA_RESP_ERR_NO_ERROR)
        (void) list.release(); // the message owns them now
    return result;
}

// Whether the report came before `go_on` said no. librdkafka's own time-out ends the wait.
bool
DeadLetters::wait(const std::function<bool()> &go_on)
{
    constexpr int kSliceMs = 20;
    const auto deadline = std::chrono::steady_clock::now() + timeout_ + timeout_ / 2;
    while (!report_.arrived)
    {
        (void) rd_kafka_poll(client_, kSliceMs); // the count says nothing about this letter
        if (report_.arrived)
            break;
        if (!go_on())
        {
            (void) rd_kafka_purge(client_, RD_KAFKA_PURGE_F_QUEUE); // if it can be helped
            return false;
        }
        if (std::chrono::steady_clock::now() > deadline)
            report_ = {true, RD_KAFKA_RESP_ERR__MSG_TIMED_OUT};
    }
    return true;
}

void
DeadLetters::poll()
{
    if (client_ != nullptr)
        (void) rd_kafka_poll(client_, 0); // all that is there, however much
}

bool
DeadLetters::write(const Record &record, const DeadLetter &letter,
                   const std::function<bool()> &go_on)
{
    const std::string topic = record.topic + suffix_;
    connect();
    rd_kafka_resp_err_t result = RD_KAFKA_RESP_ERR_NO_ERROR;
    // A record that just fitted into its topic may fit here with a shorter error.
    for (const std::size_t error_bytes : {kMaxErrorBytes, kShortErrorBytes, std::size_t{0}})
    {
        DeadLetter shorter = letter;
        shorter.error = clip(letter.error, error_bytes);
        result = produce(topic, record, dead_letter_headers(record, shorter));
        if (result == RD_KAFKA_RESP_ERR_NO_ERROR)
        {
            if (!wait(go_on))
                return false;
            result = report_.error;
        }
        if (result == RD_KAFKA_RESP_ERR_NO_ERROR)
            return true;
        if (result != RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE)
            break;
    }
    const bool too_large = result == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
    throw DeadLetterError(
        "the record " + name_of(record) + " cannot be written to " + topic + ": " +
            rd_kafka_err2str(result) +
            (too_large ? "; raise max.message.bytes of that topic by a kilobyte" : "") +
            "; it failed with: " + letter.error,
        rd_kafka_err2name(result), record.topic, record.partition, record.offset);
}

} // namespace outbox::v0::detail
