// A simulated Kafka: brokers, topics, partitions and what they hold.
#pragma once

#include "clock.h"
#include "random.h"
#include "trace.h"

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace outbox::sim
{

constexpr int kBrokers = 3;
constexpr int kPartitions = 2;

using ProducerId = std::uint64_t;

// A record on its way, or in a log.
struct Message
{
    int event = 0;
    std::string key;
    int bytes = 0;
    bool invalid = false;
    std::uint64_t tag = 0;       // the client's
    std::uint64_t id = 0;        // the client's count in the partition, from 1
    bool in_doubt = false;       // it may be in Kafka, as its client sees it
    int replay = 0;              // it is of this one; 0: of none
    std::uint64_t batch_end = 0; // the last of the batch that it was sent with; 0: of none
};

struct Place
{
    std::string topic;
    std::int32_t partition = 0;

    bool operator<(const Place &other) const noexcept
    {
        return topic != other.topic ? topic < other.topic : partition < other.partition;
    }
    bool operator==(const Place &other) const noexcept
    {
        return topic == other.topic && partition == other.partition;
    }
};

// What a broker answers.
enum class Answer
{
    accepted,         // or a repeat of what it had accepted
    lost,             // none: the connection broke
    not_leader,       // another broker leads the partition
    not_enough,       // of the replicas are in sync: nothing was written
    not_enough_after, // the same, but it was written
    too_large,        // the batch, or a record of it
    invalid,          // a record of the batch
    not_authorized,   // for this topic
    out_of_order,     // a sequence number was skipped
    unknown_topic,
    never_again // the endpoint asks not to be called
};
const char *name_of(Answer answer) noexcept;

// A batch, numbered as an idempotent producer does it.
struct Batch
{
    ProducerId producer = 0;
    std::int32_t epoch = 0;
    std::int64_t first_sequence = 0;
    Place place;
    std::vector<Message> messages;
};

struct Topic
{
    bool exists = true;
    bool authorized = true;
    bool hidden = false;        // not even described to who is not authorized
    bool checks_records = true; // refuses invalid ones
    int max_bytes = 100000;     // of a batch
    Time usable_since = kBegin; // exists and is authorized
};

// As one partition's leader remembers what a producer has sent.
struct ProducerState
{
    std::int32_t epoch = -1;
    // Sequence numbers, first and last, of the latest batches.
    std::deque<std::pair<std::int64_t, std::int64_t>> batches;
};

struct Partition
{
    int leader = 0;                            // -1: none
    std::array<Time, kBrokers> led_until = {}; // by others than the leader
    bool short_of_replicas = false;
    bool writes_when_short = false; // and says afterwards that it was too few
    Time leader_since = kBegin;
    // When its leader hung: who had sent it something waits for that, wherever it is led since.
    Time hung_at = 0;
    std::map<ProducerId, ProducerState> producers;
    std::size_t records = 0;
};

struct Broker
{
    bool up = true;
    bool hangs = false; // takes what is sent, and answers when that is over
    Time well_since = kBegin;
    Time slow_by = 0;        // answers take longer by this
    int answers_to_lose = 0; // the next so many answers do not arrive
};

// Hears of each record that a broker has taken.
class LogReader
{
public:
    virtual ~LogReader() = default;
    virtual void appended(const Place &place, const Message &message) = 0;
    // A client has asked a broker that does not lead the partition any more, and that is slow: it
    // waits until then to be told.
    virtual void misdirected(const Place &place, Time until) = 0;
};

class Cluster
{
public:
    Cluster(SimClock &clock, Random &random, Trace &trace, LogReader &reader, int topics);

    Topic *topic(const std::string &name);
    Partition &partition(const Place &place) { return partitions_.at(place); }
    const std::map<Place, Partition> &partitions() const noexcept { return partitions_; }
    Broker &broker(int number) { return brokers_.at(static_cast<std::size_t>(number)); }
    const Broker &broker(int number) const { return brokers_.at(static_cast<std::size_t>(number)); }
    bool any_broker_answers() const noexcept;
    // From now on it is an endpoint that takes one record after the other, which the first broker
    // plays: it leads all, and knows no numbers.
    void be_endpoint();

    // What a leader does with a batch that reaches it now.
    // The first batch of a producer must be the first of its numbers. Kafka's brokers take any, so
    // with more than one request in flight what comes second may be taken alone, and librdkafka
    // holds the first for arrived as well: who allows for that may lose events.
    void begin_at_zero() noexcept { begins_at_zero_ = true; }
    Answer append(int broker, const Batch &batch);
    void misdirected(const Place &place, Time until) { reader_.misdirected(place, until); }

    // Since when records that may go there do go there: kNever while they do not.
    Time well_since(const Place &place) const;

    void set_broker(int number, bool up, bool hangs);
    // The endpoint answers so to all.
    void want_no_more(bool so);
    void set_leader(const Place &place, int broker);
    void set_topic(const std::string &name, bool exists, bool authorized, bool hidden = false);
    void set_replicas(const Place &place, bool enough, bool writes);

private:
    bool repeats(const ProducerState &state, std::int64_t first, std::int64_t last) const;
    bool follows(const ProducerState &state, const Batch &batch) const;
    bool may_be_taken_for_leader(const Partition &partition, int broker) const;

    SimClock &clock_;
    Random &random_;
    Trace &trace_;
    LogReader &reader_;
    std::map<std::string, Topic> topics_;
    std::map<Place, Partition> partitions_;
    Answer take(const Batch &batch);

    bool begins_at_zero_ = false;
    bool endpoint_ = false;
    bool wants_no_more_ = false;
    std::array<Broker, kBrokers> brokers_;
};

} // namespace outbox::sim
