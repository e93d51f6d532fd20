// A member of a Kafka consumer group: what partitions it has, what comes from them, how far it is.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <librdkafka/rdkafka.h>

#include "backoff.h"
#include "broker_names.h"
#include "event_fd.h"
#include "kafka_config.h"
#include "kafka_end.h"
#include "log.h"
#include "outbox/consumer.h"
#include "stop_budget.h"

namespace outbox::v0::detail
{

struct TopicPartition
{
    std::string topic;
    std::int32_t partition = 0;

    bool operator<(const TopicPartition &other) const
    {
        return std::tie(topic, partition) < std::tie(other.topic, other.partition);
    }
};

// A record, and the assignment that it came by.
struct Held
{
    Record record;
    std::uint64_t assignment = 0;

    TopicPartition place() const { return {record.topic, record.partition}; }
};

using Offsets = std::map<TopicPartition, std::int64_t>;

// All of it happens in the caller's thread: rebalances only within serve() and close(). Records
// wait in a queue apart from the group's, so that serve() can be called as often as one likes,
// which is what keeps the membership, without taking records that nobody wants yet.
class GroupMember
{
public:
    struct Options
    {
        std::vector<std::string> topics;
        bool own_offsets = false; // where to begin is told by assign()
        bool cooperative = false; // asked for, see wants_cooperative_rebalancing()
        Milliseconds commit_interval;
        std::string group; // for messages
    };

    // Joins. Throws KafkaError.
    GroupMember(KafkaConfig config, Options options, const StopBudget &budget, const Log &log);
    // Takes kEndLimit at most.
    ~GroupMember();
    GroupMember(const GroupMember &) = delete;
    GroupMember &operator=(const GroupMember &) = delete;

    // Takes part in rebalances and reports errors. Throws KafkaError for those that do not pass.
    void serve();

    // With own_offsets: whether partitions were given to us and assign() has to follow.
    bool waits_for_offsets() const { return pending_ != nullptr; }
    // Begins at these next offsets; partitions that are not among them begin where the group has
    // committed in Kafka, or at their beginning; if they were among them once, where they began
    // then. Throws KafkaError when Kafka does not say; then it can be called again.
    void assign(const Offsets &offsets);

    // With own_offsets, later: what PostgreSQL says now. Where that is not what was done here, as
    // after a fail-over that has lost commits, it is gone back, or on, to there. Whether it is
    // anywhere; records in hand of such partitions are not held any more. Throws KafkaError as
    // assign() does.
    bool continue_at(const Offsets &offsets);

    // The next record, if there is one right now.
    std::optional<Held> next();
    // Throws KafkaError if the next one cannot be read. To be called when all that next() has given
    // is dealt with, so that nothing is left out that came before it.
    void require_readable();
    // Whether the record's partition has been ours ever since it came.
    bool holds(const Held &held) const;

    // The record is dealt with: the group may continue after it.
    void done(const Held &held);

    // Where partitions have come to their end behind the last record that they gave, as there were
    // only markers of transactions, aborted records, or what was compacted away. It counts when
    // every record that next() has given is dealt with.
    Offsets ends() const;
    bool has_ends() const { return !ends().empty(); }
    // The group may continue there.
    void passed(const TopicPartition &place, std::int64_t end);

    // Commits to Kafka what is done, if that is due.
    void commit_if_due();

    // Waits until serve() has something to do, or next() if `records`, a stop is asked for, or the
    // time is over.
    void wait(bool records, Milliseconds limit, const StopFlag &stop);

    // Leaves the group, which takes the partitions back and so commits what is done; gives up when
    // the budget is used up.
    void close();

private:
    // What librdkafka would pass over.
    struct Unreadable
    {
        Held place;
        rd_kafka_resp_err_t error;
        std::string text;
    };
    struct Part
    {
        std::uint64_t assignment = 0;
        std::int64_t begun = -1; // with own_offsets: where to begin, as librdkafka takes it
        // ... where the consumer once began to keep this partition's offset in PostgreSQL
        std::int64_t origin = RD_KAFKA_OFFSET_BEGINNING;
        std::int64_t stored = -1; // ... and what PostgreSQL had; -1 is nothing
        std::int64_t done = -1;   // next offset to be committed
        std::int64_t end = -1;    // of the partition, when it was last there
        bool dirty = false;
    };
    using Queue = std::unique_ptr<rd_kafka_queue_t, decltype(&rd_kafka_queue_destroy)>;
    using List = std::unique_ptr<rd_kafka_topic_partition_list_t,
                                 decltype(&rd_kafka_topic_partition_list_destroy)>;

    // What callbacks get, and what librdkafka's threads use, perhaps for longer than there is a
    // member: they write to the descriptors, and look up names.
    struct Opaque
    {
        explicit Opaque(GroupMember *owner) : member(owner) {}

        std::atomic<GroupMember *> member; // none from its destructor on
        BrokerNames names;
        const EventFd group_fd;
        const EventFd records_fd;
    };

    static GroupMember *member_of(void *opaque)
    {
        return static_cast<Opaque *>(opaque)->member.load();
    }
    static int on_resolve(const char *host, const char *service, const addrinfo *hints,
                          addrinfo **result, void *opaque);
    static void on_rebalance(rd_kafka_t *client, rd_kafka_resp_err_t what,
                             rd_kafka_topic_partition_list_t *partitions, void *opaque);
    static void on_error(rd_kafka_t *client, int error, const char *reason, void *opaque);
    static void on_log(const rd_kafka_t *client, int level, const char *facility, const char *text);

    void join();
    void end() noexcept;
    bool cooperative() const;
    void take_over(const rd_kafka_topic_partition_list_t *partitions);
    void give_up(const rd_kafka_topic_partition_list_t *partitions);
    void warn_of_new_topic(const rd_kafka_topic_partition_t &part);
    void seek(const TopicPartition &place, std::int64_t offset);
    void confirm_assignment(const rd_kafka_topic_partition_list_t *partitions);
    void confirm_revocation(const rd_kafka_topic_partition_list_t *partitions);
    void report(const rd_kafka_message_t &message);
    void note_unreadable(const rd_kafka_message_t &message);
    std::string what_to_do_about(const rd_kafka_message_t &message) const;
    Record convert(rd_kafka_message_t *message) const;
    void note_end(const rd_kafka_message_t &message);
    bool send_commit();
    void commit_again(const std::string &why);
    void collect_commits(Milliseconds limit);
    void commit_and_wait(Milliseconds limit);

    const Options options_;
    const StopBudget &budget_;
    const Log &log_;
    std::shared_ptr<Opaque> opaque_ = std::make_shared<Opaque>(this);
    KafkaEnd end_{opaque_};
    std::unique_ptr<rd_kafka_t, decltype(&rd_kafka_destroy)> client_;
    Queue group_queue_;
    Queue records_;
    Queue commits_;
    std::map<TopicPartition, Part> owned_;
    std::uint64_t assignments_ = 0;
    std::optional<Unreadable> unreadable_;
    List pending_;
    int commits_in_flight_ = 0;
    std::chrono::steady_clock::time_point next_commit_;
    std::exception_ptr failure_; // thrown below librdkafka, for serve() to throw on
};

} // namespace outbox::v0::detail
