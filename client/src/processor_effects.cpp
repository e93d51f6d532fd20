// The steps in which effects are made, one by one or many in a transaction.
#include "processor.h"

#include <unordered_set>

namespace outbox::v0::detail
{

void
Processor::make_effect(const Held &held)
{
    PGconn *const transaction = connection();
    database_->begin();
    if (store_.claim(transaction, options_.consumer, held.record.event_id) == Claim::first)
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
    (void) connection();
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
        log_.info("somebody else is processing " + describe(held.record));
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
                     describe(held.record));
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
    PGconn *const transaction = connection();
    database_->begin();
    std::unordered_set<std::string> first;
    for (std::string &id : store_.claim_many(transaction, options_.consumer, ids))
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
    (void) connection();
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
