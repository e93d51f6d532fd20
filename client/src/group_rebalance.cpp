// Partitions that come and go, and the offsets that are committed for them.
#include "committed_offset.h"
#include "group_member.h"
#include "names.h"
#include "outbox/error.h"

#include <algorithm>
#include <cstring>

namespace outbox::v0::detail
{

namespace
{

using Clock = std::chrono::steady_clock;

constexpr auto kRevocationLimit = Milliseconds(5000); // for the last commit of partitions given up

std::string
describe(const rd_kafka_topic_partition_list_t *partitions)
{
    std::string text;
    for (int i = 0; i < partitions->cnt; ++i)
        text += (i > 0 ? ", " : "") + name_of(partitions->elems[i]);
    return partitions->cnt == 0 ? "none" : text;
}

} // namespace

bool
GroupMember::cooperative() const
{
    const char *protocol = rd_kafka_rebalance_protocol(client_.get());
    return protocol != nullptr && std::string(protocol) == "COOPERATIVE";
}

void
GroupMember::on_rebalance(rd_kafka_t * /*client*/, rd_kafka_resp_err_t what,
                          rd_kafka_topic_partition_list_t *partitions, void *opaque)
{
    GroupMember *self = member_of(opaque);
    if (self == nullptr)
        return;
    try
    {
        if (what == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS)
            self->take_over(partitions);
        else
            self->give_up(partitions);
    }
    catch (...)
    {
        self->failure_ = std::current_exception();
    }
}

void
GroupMember::take_over(const rd_kafka_topic_partition_list_t *partitions)
{
    log_.info("partitions assigned: " + describe(partitions));
    ++assignments_;
    for (int i = 0; i < partitions->cnt; ++i)
    {
        const rd_kafka_topic_partition_t &part = partitions->elems[i];
        Part &owned = owned_[{part.topic, part.partition}];
        owned = Part();
        owned.assignment = assignments_;
        const Queue queue(rd_kafka_queue_get_partition(client_.get(), part.topic, part.partition),
                          &rd_kafka_queue_destroy);
        if (!queue)
            throw KafkaError("no queue for a partition of " + std::string(part.topic), "_STATE");
        rd_kafka_queue_forward(queue.get(), records_.get());
    }
    if (options_.own_offsets)
        pending_.reset(rd_kafka_topic_partition_list_copy(partitions));
    else
        confirm_assignment(partitions);
}

// When a topic is deleted Kafka forgets what groups have committed for it; librdkafka 2.0 does not
// tell topics of the same name apart.
void
GroupMember::warn_of_new_topic(const rd_kafka_topic_partition_t &part)
{
    log_.warning("Kafka has no offset of this group for " + name_of(part) +
                 ", where PostgreSQL continues at " + std::to_string(part.offset) +
                 ": if the topic was deleted and made anew, the records before that are left out; "
                 "then stop, delete its rows in outbox.consumer_offsets and start again");
}

bool
GroupMember::continue_at(const Offsets &offsets)
{
    bool moved = false;
    for (auto &[place, part] : owned_)
    {
        const auto known = offsets.find(place);
        const std::int64_t stored = known == offsets.end() ? -1 : known->second;
        const std::int64_t expected = part.done >= 0 ? part.done : part.stored;
        if (stored == expected)
            continue;
        // The row is gone, so all that was done since there was none is lost.
        const std::int64_t next = stored >= 0 ? stored : part.origin;
        seek(place, next);
        const std::string text = name_of(place.topic, place.partition) + " continues at " +
                                 name_of(next) + " after " + std::to_string(expected) +
                                 ", as PostgreSQL says now";
        if (stored < expected)
            log_.warning(text + ": it has lost commits, and what they did is done again");
        else
            log_.info(text);
        const std::int64_t origin = std::min(part.origin, next);
        part = Part();
        part.assignment = ++assignments_; // records in hand are not the next ones
        part.begun = next;
        part.origin = origin;
        part.stored = part.done = stored;
        part.dirty = stored >= 0;
        moved = true;
    }
    return moved;
}

// What librdkafka has fetched before is dropped by it.
void
GroupMember::seek(const TopicPartition &place, std::int64_t offset)
{
    constexpr int kLimitMs = 5000;
    const List list(rd_kafka_topic_partition_list_new(1), &rd_kafka_topic_partition_list_destroy);
    rd_kafka_topic_partition_t &part =
        *rd_kafka_topic_partition_list_add(list.get(), place.topic.c_str(), place.partition);
    part.offset = offset;
    const std::unique_ptr<rd_kafka_error_t, decltype(&rd_kafka_error_destroy)> error(
        rd_kafka_seek_partitions(client_.get(), list.get(), kLimitMs), &rd_kafka_error_destroy);
    const rd_kafka_resp_err_t result = error ? rd_kafka_error_code(error.get()) : part.err;
    if (result != RD_KAFKA_RESP_ERR_NO_ERROR)
        throw_kafka_error("cannot go to offset " + std::to_string(offset) + " of " +
                              name_of(place.topic, place.partition),
                          result);
}

void
GroupMember::assign(const Offsets &offsets)
{
    constexpr int kLimitMs = 5000;
    const List committed(rd_kafka_topic_partition_list_copy(pending_.get()),
                         &rd_kafka_topic_partition_list_destroy);
    const rd_kafka_resp_err_t result = rd_kafka_committed(client_.get(), committed.get(), kLimitMs);
    if (result != RD_KAFKA_RESP_ERR_NO_ERROR)
        throw_kafka_error("cannot ask for committed offsets", result);
    // Where the consumer once began in a partition is known only there.
    for (int i = 0; i < committed->cnt; ++i)
        if (const rd_kafka_topic_partition_t &part = committed->elems[i];
            part.err != RD_KAFKA_RESP_ERR_NO_ERROR)
            throw_kafka_error("cannot ask for the committed offset of " + name_of(part), part.err);
    for (int i = 0; i < committed->cnt; ++i)
    {
        const rd_kafka_topic_partition_t &in_kafka = committed->elems[i];
        rd_kafka_topic_partition_t &part =
            *rd_kafka_topic_partition_list_find(pending_.get(), in_kafka.topic, in_kafka.partition);
        const auto known = offsets.find({part.topic, part.partition});
        const std::int64_t stored = known == offsets.end() ? -1 : known->second;
        const Beginning beginning = find_beginning(in_kafka, stored);
        if (!beginning.info.empty())
            log_.info(beginning.info);
        if (!beginning.warning.empty())
            log_.warning(beginning.warning);
        part.offset = beginning.offset;
        Part &owned = owned_[{part.topic, part.partition}];
        owned.begun = part.offset;
        owned.origin = beginning.origin;
        owned.stored = stored;
        if (stored >= 0 && in_kafka.offset < 0)
            warn_of_new_topic(part);
        // From now on Kafka has one that is ours, and forgets it with the topic.
        if (beginning.to_be_committed)
        {
            owned.done = part.offset;
            owned.dirty = true;
        }
    }
    const List partitions = std::move(pending_);
    confirm_assignment(partitions.get());
}

void
GroupMember::confirm_assignment(const rd_kafka_topic_partition_list_t *partitions)
{
    if (cooperative())
    {
        if (options_.own_offsets)
            throw UsageError("offsets in PostgreSQL need eager rebalancing");
        if (rd_kafka_error_t *error = rd_kafka_incremental_assign(client_.get(), partitions))
        {
            const KafkaError failure(std::string("cannot take partitions: ") +
                                         rd_kafka_error_string(error),
                                     rd_kafka_error_name(error));
            rd_kafka_error_destroy(error);
            throw failure; // NOLINT(cert-err60-cpp)
        }
        return;
    }
    const rd_kafka_resp_err_t result = rd_kafka_assign(client_.get(), partitions);
    if (result != RD_KAFKA_RESP_ERR_NO_ERROR)
        throw_kafka_error("cannot take partitions", result);
}

// Nothing is in the middle of being processed here, as that happens between two calls of serve().
// What the caller still has in hand it drops when holds() says no.
void
GroupMember::give_up(const rd_kafka_topic_partition_list_t *partitions)
{
    const bool lost = rd_kafka_assignment_lost(client_.get()) != 0;
    log_.info(std::string("partitions ") + (lost ? "lost: " : "revoked: ") + describe(partitions));
    // Of lost partitions others may have committed more than we.
    if (!lost)
        commit_and_wait(kRevocationLimit);
    for (int i = 0; i < partitions->cnt; ++i)
        owned_.erase({partitions->elems[i].topic, partitions->elems[i].partition});
    pending_.reset();
    confirm_revocation(partitions);
}

void
GroupMember::confirm_revocation(const rd_kafka_topic_partition_list_t *partitions)
{
    if (cooperative())
    {
        if (rd_kafka_error_t *error = rd_kafka_incremental_unassign(client_.get(), partitions))
        {
            log_.warning(std::string("cannot give up partitions: ") + rd_kafka_error_string(error));
            rd_kafka_error_destroy(error);
        }
        return;
    }
    owned_.clear();
    const rd_kafka_resp_err_t result = rd_kafka_assign(client_.get(), nullptr);
    if (result != RD_KAFKA_RESP_ERR_NO_ERROR)
        throw_kafka_error("cannot give up partitions", result);
}

void
GroupMember::done(const Held &held)
{
    const auto owner = owned_.find(held.place());
    if (owner == owned_.end() || owner->second.assignment != held.assignment)
        return;
    owner->second.done = held.record.offset + 1;
    owner->second.dirty = true;
}

Offsets
GroupMember::ends() const
{
    Offsets ends;
    for (const auto &[place, part] : owned_)
        if (part.end > std::max({part.done, part.stored, part.begun, std::int64_t{0}}))
            ends[place] = part.end;
    return ends;
}

void
GroupMember::passed(const TopicPartition &place, std::int64_t end)
{
    const auto owner = owned_.find(place);
    if (owner == owned_.end() || owner->second.end < end)
        return;
    owner->second.done = end;
    owner->second.dirty = true;
}

// Whether there was anything to commit.
bool
GroupMember::send_commit()
{
    const List list(rd_kafka_topic_partition_list_new(static_cast<int>(owned_.size())),
                    &rd_kafka_topic_partition_list_destroy);
    for (auto &[place, part] : owned_)
        if (std::exchange(part.dirty, false))
        {
            rd_kafka_topic_partition_t &next = *rd_kafka_topic_partition_list_add(
                list.get(), place.topic.c_str(), place.partition);
            next.offset = part.done;
            const std::string metadata =
                options_.own_offsets ? kept_in_postgres(part.origin) : std::string(kKeptInKafka);
            next.metadata = strdup(metadata.c_str()); // librdkafka frees it
            next.metadata_size = next.metadata == nullptr ? 0 : metadata.size();
        }
    if (list->cnt == 0)
        return false;
    const rd_kafka_resp_err_t result =
        rd_kafka_commit_queue(client_.get(), list.get(), commits_.get(), nullptr, nullptr);
    if (result != RD_KAFKA_RESP_ERR_NO_ERROR)
    {
        commit_again(rd_kafka_err2str(result));
        return false;
    }
    ++commits_in_flight_;
    return true;
}

void
GroupMember::commit_if_due()
{
    if (commits_in_flight_ > 0 || Clock::now() < next_commit_)
        return;
    next_commit_ = Clock::now() + options_.commit_interval;
    (void) send_commit();
}

// Waits for the answers to all commits that were sent, or just takes those that are here. When
// run() ends, Kafka has to answer them in half of what is left for leaving the group as well.
void
GroupMember::collect_commits(Milliseconds limit)
{
    constexpr auto kSlice = Milliseconds(100); // after which a stop is seen
    const auto start = Clock::now();
    while (commits_in_flight_ > 0)
    {
        const auto end = budget_.end();
        const auto deadline = end == Clock::time_point::max()
                                  ? start + limit
                                  : std::min(start + limit, start + (end - start) / 2);
        const auto left =
            std::min(kSlice, std::chrono::duration_cast<Milliseconds>(deadline - Clock::now()));
        const std::unique_ptr<rd_kafka_event_t, decltype(&rd_kafka_event_destroy)> answer(
            rd_kafka_queue_poll(commits_.get(), std::max(0, static_cast<int>(left.count()))),
            &rd_kafka_event_destroy);
        if (!answer)
        {
            if (left.count() <= 0)
                return;
            continue;
        }
        if (rd_kafka_event_type(answer.get()) != RD_KAFKA_EVENT_OFFSET_COMMIT)
            continue;
        --commits_in_flight_;
        const rd_kafka_resp_err_t result = rd_kafka_event_error(answer.get());
        if (result != RD_KAFKA_RESP_ERR_NO_ERROR)
            commit_again(std::string(rd_kafka_err2str(result)) + " (" + rd_kafka_err2name(result) +
                         ")");
    }
}

// With the next commit.
void
GroupMember::commit_again(const std::string &why)
{
    log_.warning("offsets not committed: " + why);
    for (auto &[place, part] : owned_)
        part.dirty = part.done >= 0;
}

void
GroupMember::commit_and_wait(Milliseconds limit)
{
    (void) send_commit();
    collect_commits(limit);
}

} // namespace outbox::v0::detail
