#include "processor.h"

#include "outbox/error.h"

#include <unordered_set>

namespace outbox::v0::detail
{

namespace
{

std::string
name_of(const Record &record)
{
    return record.topic + "/" + std::to_string(record.partition) + " offset " +
           std::to_string(record.offset) + (record.event_id.empty() ? "" : " " + record.event_id);
}

} // namespace

Processor::Processor(const ConsumerOptions &options, const Handler &handler, Database *database,
                     DedupStore &store, DeadLetters &dead_letters, const StopFlag &stop,
                     const Log &log)
    : options_(options), handler_(handler), database_(database), store_(store),
      dead_letters_(dead_letters), stop_(stop), log_(log), random_(std::random_device()())
{
}

void
Processor::join(GroupMember *group)
{
    group_ = group;
    in_hand_.clear();
    singles_ = 0;
    reset_first();
}

void
Processor::reset_first()
{
    stage_ = Stage::effect;
    attempts_ = 0;
    pauses_ = 0;
    due_ = Clock::now();
}

void
Processor::drop_what_was_given_up()
{
    const std::size_t before = in_hand_.size();
    bool first = true;
    for (auto held = in_hand_.begin(); held != in_hand_.end();)
    {
        if (group_->holds(*held))
        {
            first = false;
            ++held;
            continue;
        }
        held = in_hand_.erase(held);
        if (first)
            reset_first();
    }
    singles_ = std::min(singles_, in_hand_.size());
    if (in_hand_.size() < before)
        log_.info("left " + std::to_string(before - in_hand_.size()) +
                  " records to the partitions' next owner");
}

void
Processor::pause(int failures)
{
    due_ =
        Clock::now() + backoff(options_.backoff_initial, options_.backoff_max, failures, random_());
}

void
Processor::pause_after(const std::string &what, const std::string &why)
{
    pause(++pauses_);
    log_.warning(what + ": " + why);
}

// Missing objects, missing rights: only a person can help, and it is not the record's fault.
void
Processor::end_if_misconfigured(const DatabaseError &error) const
{
    const std::string type = error.code().substr(0, 2);
    if (!in_handler_ && (type == "42" || type == "3F"))
        throw DatabaseError("the database is not set up for this consumer: " +
                                std::string(error.what()),
                            error.code(), error.hint());
}

void
Processor::step()
{
    const bool batch = singles_ == 0 && in_hand_.size() > 1;
    try
    {
        if (batch)
            step_batch();
        else
            step_first();
        return;
    }
    catch (const DeadLetterError &)
    {
        throw;
    }
    catch (const DatabaseError &error)
    {
        if (database_ != nullptr)
            database_->rollback();
        end_if_misconfigured(error);
        const bool lost = error.connection_lost() || (database_ != nullptr && database_->lost());
        if (lost || error.transient() || !in_handler_)
        {
            // Of a server that has become read-only, the next connection may find the other one.
            if (database_ != nullptr && (lost || error.code() == "25006"))
                database_->drop();
            pause_after("will be tried again: " + name_of(in_hand_.front().record),
                        std::string(error.what()) + " (" + error.code() + ")");
        }
        else
            failed(error.what());
    }
    catch (const StoreError &error)
    {
        pause_after("the dedup store", std::string(error.what()) + " (" + error.code() + ")");
    }
    catch (const std::exception &error)
    {
        failed(error.what());
    }
    in_handler_ = false;
}

void
Processor::step_first()
{
    in_handler_ = false;
    switch (stage_)
    {
    case Stage::effect:
    {
        const Held &held = in_hand_.front();
        if (held.record.event_id.empty())
            write_dead_letter("the record has no UUID in its header \"id\"", 0);
        else if (database_ == nullptr)
            make_external_effect(held);
        else
            make_effect(held);
        break;
    }
    case Stage::confirm:
        confirm();
        break;
    case Stage::offset:
        store_offset_alone();
        break;
    }
}

void
Processor::make_effect(const Held &held)
{
    PGconn *connection = database_->connection();
    database_->begin();
    if (store_.claim(connection, options_.consumer, held.record.event_id) == Claim::first)
        call_handler(held);
    if (store_offset(held.place(), held.record.offset + 1))
        commit();
    else
        database_->rollback();
    finish_first();
}

void
Processor::commit()
{
    in_handler_ = true; // what a commit finds wrong, such as a deferred constraint, the handler did
    database_->commit();
    in_handler_ = false;
}

void
Processor::call_handler(const Held &held)
{
    in_handler_ = true;
    try
    {
        handler_(database_ == nullptr ? nullptr : database_->connection(), held.record);
    }
    catch (const std::exception &)
    {
        if (database_ != nullptr && database_->lost())
            throw DatabaseError("the connection was lost in the handler", "08006");
        throw;
    }
    catch (...)
    {
        throw std::runtime_error("the handler threw something that is no std::exception");
    }
    if (database_ != nullptr)
    {
        if (database_->lost())
            throw DatabaseError("the connection was lost in the handler", "08006");
        if (PQpipelineStatus(database_->connection()) != PQ_PIPELINE_OFF ||
            database_->state() == PQTRANS_ACTIVE)
            throw std::runtime_error("the handler left a statement running");
        if (database_->state() == PQTRANS_INERROR)
            throw std::runtime_error("the handler let an error of SQL in its transaction pass");
        if (database_->state() != PQTRANS_INTRANS)
            throw std::runtime_error("the handler ended the transaction");
    }
    in_handler_ = false;
}

// False if somebody else has come this far, and so has processed the record, or written it to the
// dead letters, although we find it unprocessed.
bool
Processor::store_offset(const TopicPartition &place, std::int64_t next_offset)
{
    if (options_.offsets != OffsetPolicy::postgres)
        return true;
    const Result result =
        database_->exec("select outbox.record_offset($1, $2, $3, $4)",
                        {options_.consumer, place.topic, std::to_string(place.partition),
                         std::to_string(next_offset)});
    return result.text(0, 0) == "t";
}

void
Processor::store_offset_alone()
{
    const Held &held = in_hand_.front();
    (void) database_->connection();
    database_->begin();
    (void) store_offset(held.place(), held.record.offset + 1); // at least as far is enough
    database_->commit();
    finish_first();
}

// The store is asked before the effect and told after it. Between these a crash leaves the claim to
// expire, after which the record is processed once more.
void
Processor::make_external_effect(const Held &held)
{
    const std::string &id = held.record.event_id;
    switch (store_.claim(nullptr, options_.consumer, id))
    {
    case Claim::repeated:
        finish_first();
        return;
    case Claim::busy:
        pause(++pauses_);
        log_.info("somebody else is processing " + name_of(held.record));
        return;
    case Claim::first:
        break;
    }
    try
    {
        call_handler(held);
    }
    catch (const std::exception &)
    {
        try
        {
            store_.release(options_.consumer, id);
        }
        catch (const StoreError &error)
        {
            // The record is tried again when the claim has expired.
            log_.warning("the dedup store: " + std::string(error.what()));
        }
        throw;
    }
    stage_ = Stage::confirm;
    pauses_ = 0;
    // Whatever becomes of the confirmation, the effect is made.
    group_->done(held);
    confirm();
}

void
Processor::confirm()
{
    const Held &held = in_hand_.front();
    if (!store_.confirm(options_.consumer, held.record.event_id))
        log_.warning("the claim expired before the handler had ended, so the effect may have been "
                     "made twice: " +
                     name_of(held.record));
    finish_first();
}

void
Processor::finish_first()
{
    group_->done(in_hand_.front());
    in_hand_.pop_front();
    if (singles_ > 0)
        --singles_;
    reset_first();
}

// The first record's attempt has failed by its own fault, or that of one in its batch.
void
Processor::failed(const std::string &why)
{
    if (database_ != nullptr)
        database_->rollback();
    if (singles_ == 0 && in_hand_.size() > 1)
    {
        log_.warning("a batch of " + std::to_string(in_hand_.size()) +
                     " is done again one by one: " + why);
        singles_ = in_hand_.size();
        return;
    }
    ++attempts_;
    log_.warning("attempt " + std::to_string(attempts_) + " of " +
                 std::to_string(options_.max_attempts) + " failed for " +
                 name_of(in_hand_.front().record) + ": " + why);
    if (attempts_ >= options_.max_attempts)
        write_dead_letter(why, attempts_);
    else
        pause(attempts_);
}

void
Processor::write_dead_letter(const std::string &why, int attempts)
{
    const Held held = in_hand_.front(); // serve() below may take it out of our hands
    const auto go_on = [&]
    {
        group_->serve();
        return !stop_.raised() && group_->holds(held);
    };
    if (!dead_letters_.write(held.record, {why, attempts, options_.consumer}, go_on))
        return; // it stays in hand, unless its partition is gone
    log_.error("dead letter after " + std::to_string(attempts) +
               " attempts: " + name_of(held.record) + ": " + why);
    if (options_.offsets == OffsetPolicy::postgres)
    {
        stage_ = Stage::offset;
        due_ = Clock::now();
    }
    else
        finish_first();
}

void
Processor::step_batch()
{
    in_handler_ = false;
    if (!claim_batch_and_handle())
        return;
    for (const Held &held : in_hand_)
        group_->done(held);
    in_hand_.clear();
    reset_first();
}

// All in one transaction. False if the records are not of a kind for that.
bool
Processor::claim_batch_and_handle()
{
    std::vector<std::string> ids;
    for (const Held &held : in_hand_)
    {
        if (held.record.event_id.empty())
        {
            singles_ = in_hand_.size();
            return false;
        }
        ids.push_back(held.record.event_id);
    }
    PGconn *connection = database_->connection();
    database_->begin();
    std::unordered_set<std::string> first;
    for (std::string &id : store_.claim_many(connection, options_.consumer, ids))
        first.insert(std::move(id));
    Offsets last;
    for (const Held &held : in_hand_)
    {
        if (first.erase(held.record.event_id) > 0) // an event may be in a batch twice
            call_handler(held);
        last[held.place()] = held.record.offset + 1;
    }
    for (const auto &[place, offset] : last)
        if (!store_offset(place, offset))
        {
            database_->rollback();
            singles_ = in_hand_.size();
            return false;
        }
    commit();
    return true;
}

Offsets
Processor::stored_offsets()
{
    (void) database_->connection();
    const Result result =
        database_->exec("select topic, kafka_partition, next_offset from outbox.stored_offsets($1)",
                        {options_.consumer});
    Offsets offsets;
    for (int row = 0; row < result.rows(); ++row)
        offsets[{result.text(row, 0), std::stoi(result.text(row, 1))}] =
            std::stoll(result.text(row, 2));
    return offsets;
}

} // namespace outbox::v0::detail
