#include "outbox/consumer.h"

#include "outbox/error.h"
#include "outbox/redis_dedup_store.h"
#include "processor.h"
#include "text.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <new>

namespace outbox::v0
{

using namespace detail;

namespace
{

constexpr auto kIdleWait = Milliseconds(3000); // in case an event of librdkafka were missed
constexpr std::size_t kMaxBatch = 10000;
constexpr std::size_t kMaxBatchBytes = 16 << 20;
constexpr int kMaxAttempts = 1000;
constexpr std::size_t kMaxName = 255;  // of outbox.mark_processed()
constexpr std::size_t kMaxTopic = 249; // of Kafka
constexpr auto kMaxTime = std::chrono::hours(1);

void
require_time(const char *name, Milliseconds value, Milliseconds least)
{
    if (value < least || value > kMaxTime)
        throw UsageError(std::string(name)
                             .append(" is not between ")
                             .append(std::to_string(least.count()))
                             .append(" ms and an hour"));
}

// Kafka takes letters, digits, dots, underscores and hyphens.
void
require_kafka_name(const char *name, const std::string &text)
{
    for (const char c : text)
        if ((c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' &&
            c != '_' && c != '-')
            throw UsageError(std::string(name) +
                             " has a character that Kafka takes in no topic: " + text);
}

void
check_topics(const ConsumerOptions &options)
{
    if (options.topics.empty())
        throw UsageError("topics is empty");
    require_value("dead_letter_suffix", options.dead_letter_suffix);
    require_kafka_name("dead_letter_suffix", options.dead_letter_suffix);
    for (const std::string &topic : options.topics)
    {
        require_value("a topic", topic);
        if (topic.front() == '^')
            throw UsageError("topics are names, not patterns: " + topic);
        require_kafka_name("a topic", topic);
        if (topic == "." || topic == "..")
            throw UsageError("a topic cannot be named " + topic);
        if (std::count(options.topics.begin(), options.topics.end(), topic) > 1)
            throw UsageError("a topic is named twice: " + topic);
        if (topic.size() + options.dead_letter_suffix.size() > kMaxTopic)
            throw UsageError("the name of a topic of dead letters has more than 249 characters: " +
                             topic + options.dead_letter_suffix);
        // It would feed on its own dead letters.
        for (const std::string &other : options.topics)
            if (topic == other + options.dead_letter_suffix)
                throw UsageError(std::string("the dead letters of ")
                                     .append(other)
                                     .append(" would come back as ")
                                     .append(topic));
    }
}

void
check_store(const ConsumerOptions &options)
{
    if (!options.store || options.store->transactional())
        return;
    if (!options.conninfo.empty())
        throw UsageError("conninfo is of no use with a store that is not transactional");
    if (options.batch > 1)
        throw UsageError("batches need a transactional store");
    if (options.offsets == OffsetPolicy::postgres)
        throw UsageError("offsets in PostgreSQL need a transactional store");
}

std::size_t
size_of(const Record &record)
{
    std::size_t size = record.key ? record.key->size() : 0;
    size += record.value ? record.value->size() : 0;
    for (const Header &header : record.headers)
        size += header.name.size() + (header.value ? header.value->size() : 0);
    return size;
}

const ConsumerOptions &
checked(const ConsumerOptions &options, const Handler &handler)
{
    require_value("consumer", options.consumer);
    if (characters(options.consumer) > kMaxName)
        throw UsageError("consumer has more than 255 characters");
    require_value("bootstrap_servers", options.bootstrap_servers);
    check_topics(options);
    check_store(options);
    if (!handler)
        throw UsageError("there is no handler");
    if (options.batch < 1 || options.batch > kMaxBatch)
        throw UsageError("batch is not between 1 and 10000");
    if (options.max_attempts < 1 || options.max_attempts > kMaxAttempts)
        throw UsageError("max_attempts is not between 1 and 1000");
    require_time("backoff_initial", options.backoff_initial, Milliseconds(1));
    require_time("backoff_max", options.backoff_max, options.backoff_initial);
    require_time("dead_letter_timeout", options.dead_letter_timeout, Milliseconds(100));
    require_time("commit_interval", options.commit_interval, Milliseconds(1));
    require_time("close_timeout", options.close_timeout, Milliseconds(1));
    if (options.offsets == OffsetPolicy::postgres &&
        wants_cooperative_rebalancing(options.kafka_config))
        throw UsageError("offsets in PostgreSQL need eager rebalancing (partition.assignment."
                         "strategy=range or roundrobin)");
    // Both are made again when they are needed; a mistake shows now.
    try_config(RD_KAFKA_CONSUMER,
               make_member_config(options.bootstrap_servers, options.consumer,
                                  options.offsets == OffsetPolicy::postgres, options.kafka_config));
    try_config(RD_KAFKA_PRODUCER,
               make_dead_letter_config(options.bootstrap_servers,
                                       static_cast<int>(options.dead_letter_timeout.count()),
                                       options.kafka_config));
    return options;
}

} // namespace

std::optional<std::string>
Record::header(std::string_view name) const
{
    for (auto header = headers.rbegin(); header != headers.rend(); ++header)
        if (header->name == name)
            return header->value;
    return std::nullopt;
}

class Consumer::Impl
{
public:
    Impl(const ConsumerOptions &options, Handler handler)
        : options_(checked(options, handler)), handler_(std::move(handler)), log_(options_.log),
          budget_(stop_, options_.close_timeout)
    {
        if (!options_.store || options_.store->transactional())
            database_ = std::make_unique<Database>(
                options_.conninfo, "outbox consumer " + options_.consumer, stop_, budget_, log_);
        store_ = options_.store;
        if (!store_)
            store_ = std::make_shared<PostgresStore>(*database_);
        dead_letters_ = std::make_unique<DeadLetters>(
            options_.bootstrap_servers, options_.kafka_config, options_.dead_letter_suffix,
            options_.dead_letter_timeout, log_);
        processor_ = std::make_unique<Processor>(options_, handler_, database_.get(), *store_,
                                                 *dead_letters_, stop_, budget_, log_);
    }

    void run();
    void stop() noexcept { stop_.raise(); }
    [[noreturn]] void out_of_memory() const { std::rethrow_exception(out_of_memory_); }

private:
    void consume(GroupMember &group);
    void find_offsets(GroupMember &group);
    void turn(GroupMember &group);
    void take_batch(GroupMember &group);
    // Our own store waits for its server no longer than the budget lets it; nothing is asked of
    // others.
    void limit_store(const StopBudget *budget)
    {
        if (auto *redis = dynamic_cast<RedisDedupStore *>(store_.get()))
            redis->limit_by(budget);
    }

    const ConsumerOptions options_;
    const Handler handler_;
    const Log log_;
    StopFlag stop_;
    StopBudget budget_;
    std::atomic<bool> running_{false};
    std::unique_ptr<Database> database_;
    std::shared_ptr<DedupStore> store_;
    std::unique_ptr<DeadLetters> dead_letters_;
    std::unique_ptr<Processor> processor_;
    // Made while there is memory for it.
    const std::exception_ptr out_of_memory_ = std::make_exception_ptr(
        Error("out of memory; what was not committed is met again", "53200"));
};

// Where the partitions that were given to us continue is asked of the database, for as long as it
// takes.
void
Consumer::Impl::find_offsets(GroupMember &group)
{
    try
    {
        group.assign(processor_->stored_offsets());
    }
    catch (const DatabaseError &error)
    {
        const std::string type = error.code().substr(0, 2);
        if (type == "42" || type == "3F" || type == "22")
            throw;
        database_->drop();
        processor_->pause_after("stored offsets", error.what());
    }
    catch (const KafkaError &error)
    {
        processor_->pause_after("stored offsets", error.what());
    }
}

// What is there, up to `batch` records and to a size that needs no more of them in a transaction.
void
Consumer::Impl::take_batch(GroupMember &group)
{
    std::size_t bytes = 0;
    for (std::size_t count = 0; count < options_.batch && bytes < kMaxBatchBytes; ++count)
    {
        std::optional<Held> held = group.next();
        if (!held)
            break;
        bytes += size_of(held->record);
        processor_->take(std::move(*held));
    }
}

void
Consumer::Impl::turn(GroupMember &group)
{
    group.serve();
    dead_letters_->poll();
    processor_->drop_what_was_given_up();
    group.commit_if_due();
    const auto left =
        std::chrono::duration_cast<Milliseconds>(processor_->due() - Processor::Clock::now());
    if (left > Milliseconds(0))
    {
        group.wait(false, std::min(left + Milliseconds(1), kIdleWait), stop_);
        return;
    }
    if (group.waits_for_offsets())
    {
        find_offsets(group);
        return;
    }
    if (processor_->idle())
        take_batch(group);
    if (processor_->idle())
        group.require_readable();
    if (processor_->idle() && !processor_->wants_step())
        group.wait(true, kIdleWait, stop_);
    if (!processor_->idle() || processor_->wants_step())
        processor_->step();
}

void
Consumer::Impl::consume(GroupMember &group)
{
    try
    {
        while (!stop_.raised())
            turn(group);
    }
    catch (const Stopped &)
    {
        log_.info("stopped while waiting for PostgreSQL");
    }
}

void
Consumer::Impl::run()
{
    if (running_.exchange(true))
        throw UsageError("the consumer is running already", "55000");
    struct AtEnd
    {
        Impl &self;
        ~AtEnd()
        {
            self.processor_->join(nullptr);
            self.limit_store(nullptr);
            if (self.database_)
                self.database_->drop();
            self.running_.store(false);
        }
    } const at_end{*this};

    budget_.reset();
    limit_store(&budget_);
    const bool own_offsets = options_.offsets == OffsetPolicy::postgres;
    GroupMember group(make_member_config(options_.bootstrap_servers, options_.consumer, own_offsets,
                                         options_.kafka_config),
                      {options_.topics, own_offsets,
                       wants_cooperative_rebalancing(options_.kafka_config),
                       options_.commit_interval, options_.consumer},
                      budget_, log_);
    processor_->join(&group);
    std::exception_ptr failure;
    try
    {
        consume(group);
    }
    catch (...)
    {
        failure = std::current_exception(); // first leave the group in good order
    }
    budget_.begin();
    if (database_)
        database_->rollback();
    processor_->leave();
    try
    {
        group.close();
    }
    catch (const std::exception &error)
    {
        log_.warning("leaving the group: " + message_of(error));
    }
    if (failure)
        std::rethrow_exception(failure);
    stop_.clear(); // it was met
}

Consumer::Consumer(const ConsumerOptions &options, Handler handler)
    : impl_(std::make_unique<Impl>(options, std::move(handler)))
{
}

Consumer::~Consumer() = default;

void
Consumer::run()
{
    try
    {
        impl_->run();
    }
    catch (const Error &)
    {
        throw;
    }
    catch (const std::bad_alloc &)
    {
        impl_->out_of_memory();
    }
    catch (const std::exception &error)
    {
        throw Error(message_of(error), "58000");
    }
}

void
Consumer::stop() noexcept
{
    impl_->stop();
}

} // namespace outbox::v0
