#include "producer.h"

#include "client_config.h"
#include "refused_connection.h"
#include "shutdown.h"
#include "bgworker/sinks/signals_blocked.h"

#include <librdkafka/rdkafka.h>

#include <exception>
#include <fcntl.h>
#include <memory>
#include <utility>
#include <vector>

namespace outbox::kafka
{

namespace
{

// librdkafka 2.8 needs a second for its end now and then, when it loses a wake-up of its own;
// nobody who makes a producer to try a configuration, or makes another in its place, waits for
// that.
constexpr int kCloseMs = 100;
constexpr std::uint64_t kWake = 1;

// librdkafka quotes values in what it says of properties that do not fit together.
void
mask_values(const Settings &settings, char *text)
{
    Secrets values;
    for (std::size_t i = 0; i < settings.property_count; i++)
        if (settings.properties[i].from_file)
            values.add(settings.properties[i].value);
    values.mask(text);
}

// Configurations that cannot be freed, see has_freed_interceptors(); and whether the last client
// could not be made.
struct LeftBehind
{
    std::vector<rd_kafka_conf_t *> configs;
    bool fails = false;
};

LeftBehind &
left_behind()
{
    static LeftBehind *const all = new LeftBehind; // to the end of the process
    return *all;
}

bool
is_non_blocking(int fd) noexcept
{
    const int flags = fcntl(fd, F_GETFL);
    return flags != -1 && (flags & O_NONBLOCK) != 0;
}

} // namespace

Producer *
Producer::create(const Settings &settings, int wake_fd, Failure &why) noexcept
{
    try
    {
        std::unique_ptr<Producer> producer(new Producer);
        return producer->start(settings, wake_fd, why) ? producer.release() : nullptr;
    }
    catch (const std::exception &)
    {
        describe(why, RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE, kOutOfMemory);
        return nullptr;
    }
}

bool
Producer::start(const Settings &settings, int wake_fd, Failure &why)
{
    if (wake_fd != -1 && !is_non_blocking(wake_fd))
    {
        describe_config(why, "", "the wake-up descriptor is not a non-blocking one");
        return false;
    }
    wake_fd_ = wake_fd;

    // A second failure leaves nothing behind: without interceptors a configuration can be freed.
    if (settings.gapless && left_behind().fails)
    {
        Settings plain = settings;
        plain.gapless = false;
        if (std::unique_ptr<Producer>(create(plain, -1, why)) == nullptr)
            return false;
    }

    ClientConfig config = make_client_config(settings, secrets_, why);
    if (config == nullptr)
        return false;
    left_behind().configs.reserve(left_behind().configs.size() + 1);
    char text[512] = "";
    const SignalsBlocked blocked;
    client_ = rd_kafka_new(RD_KAFKA_PRODUCER, config.get(), text, sizeof text);
    if (client_ == nullptr)
    {
        mask_values(settings, text);
        secrets_.mask(text);
        describe_config(why, "Correct the Kafka properties.", "%s", text);
        if (settings.gapless && has_freed_interceptors())
        {
            left_behind().configs.push_back(config.release());
            left_behind().fails = true;
        }
        return false;
    }
    // Owned by the client from here on.
    static_cast<void>(config.release());
    if (settings.gapless)
        left_behind().fails = false;
    topics_ = std::make_unique<TopicHandles>(client_);
    if (!flusher_.start(client_) || !topics_->start(wake_fd))
    {
        describe(why, RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE, "no thread could be started");
        return false;
    }
    return open_queue(why);
}

bool
Producer::open_queue(Failure &why) noexcept
{
    const rd_kafka_resp_err_t error = rd_kafka_set_log_queue(client_, nullptr);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
    {
        describe(why, error, "%s", rd_kafka_err2str(error));
        return false;
    }
    queue_ = rd_kafka_queue_get_main(client_);
    if (wake_fd_ != -1)
        rd_kafka_queue_io_event_enable(queue_, wake_fd_, &kWake, sizeof kWake);
    // What came before that has not set it.
    set_wake_fd();
    return true;
}

Producer::~Producer()
{
    close(kCloseMs);
}

bool
Producer::close(int timeout_ms) noexcept
{
    if (client_ == nullptr)
        return true;
    flusher_.stop();
    if (queue_ != nullptr)
    {
        // The descriptor is the caller's and may be closed before the last thread ends.
        rd_kafka_queue_io_event_enable(queue_, -1, nullptr, 0);
        rd_kafka_queue_destroy(queue_);
        queue_ = nullptr;
    }
    // The client lives on until a question about topics has ended: what was not sent is not.
    purge();
    rd_kafka_t *client = std::exchange(client_, nullptr);
    if (topics_ == nullptr) // no memory
    {
        rd_kafka_destroy(client);
        return true;
    }
    topics_->request_stop();
    return destroy_within(std::move(topics_), timeout_ms);
}

void
Producer::purge() noexcept
{
    rd_kafka_purge(client_, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT |
                                RD_KAFKA_PURGE_F_NON_BLOCKING);
}

bool
Producer::is_dead() const noexcept
{
    return rd_kafka_fatal_error(client_, nullptr, 0) != RD_KAFKA_RESP_ERR_NO_ERROR;
}

bool
Producer::fatal(Failure &why) const noexcept
{
    char text[512];
    const rd_kafka_resp_err_t error = rd_kafka_fatal_error(client_, text, sizeof text);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR)
        return false;
    secrets_.mask(text);
    describe(why, error, "%s", text);
    why.cls = FailureClass::fatal;
    return true;
}

void
Producer::make_fatal(int code, const char *reason) noexcept
{
    rd_kafka_test_fatal_error(client_, static_cast<rd_kafka_resp_err_t>(code), reason);
}

} // namespace outbox::kafka
