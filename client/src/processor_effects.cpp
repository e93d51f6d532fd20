// The steps in which effects are made, one by one or many in a transaction.
#include "processor.h"
#include "text.h"

#include <unordered_set>

namespace outbox::v0::detail
{

HandlerCommitted::HandlerCommitted()
    : Error("the handler committed or prepared its transaction itself, so that the event is marked "
            "as "
            "processed while its effect may have been made in part: only the consumer may commit",
            "2D000")
{
}

// Throws if that transaction, of an attempt that failed, was committed: what it marked as processed
// must not count as done.
void
Processor::refuse_handlers_commit(const std::string &transaction)
{
    if (!transaction.empty() && database_->was_committed(transaction))
        throw HandlerCommitted();
}

void
Processor::make_effect(const Held &held)
{
    (void) connection();
    refuse_handlers_commit(attempted_); // a prepared one would make the claim wait for ever
    database_->begin();
    if (store_.claim(database_->connection(), options_.consumer, held.record.event_id) ==
        Claim::first)
        call_handler(held);
    else
    {
        refuse_handlers_commit(attempted_);
        refuse_handlers_commit(attempted_batch_);
    }
    if (store_offset(held.place(), held.record.offset + 1))
        commit();
    else
        database_->rollback();
    finish_first();
}

void
Processor::commit()
{
    attempted_.clear();
    in_handler_ = true; // what a commit finds wrong, such as a deferred constraint, the handler did
    database_->commit();
    in_handler_ = false;
}

void
Processor::call_handler(const Held &held)
{
    in_handler_ = true;
    PGconn *connection = nullptr;
    if (database_ != nullptr)
    {
        attempted_ = database_->transaction();
        connection = database_->lend();
    }
    std::exception_ptr thrown;
    try
    {
        handler_(connection, held.record);
    }
    catch (...)
    {
        thrown = std::current_exception();
    }
    if (database_ != nullptr)
        check_what_the_handler_left(thrown != nullptr);
    try
    {
        if (thrown)
            std::rethrow_exception(thrown);
    }
    catch (const std::exception &)
    {
        throw;
    }
    catch (...)
    {
        throw std::runtime_error("the handler threw something that is no std::exception");
    }
    in_handler_ = false;
}

// Whether the transaction that holds the mark is still there, and in order. What the handler has
// thrown says more than what it has left, except that the connection is lost.
void
Processor::check_what_the_handler_left(bool thrown)
{
    database_->take_back();
    if (database_->lost())
    {
        const std::string last = database_->last_error();
        throw DatabaseError("the connection was lost in the handler",
                            last == "25P03" || last == "25P04" ? last : "08006");
    }
    if (thrown)
        return;
    if (PQpipelineStatus(database_->connection()) != PQ_PIPELINE_OFF ||
        database_->state() == PQTRANS_ACTIVE)
        throw Error("the handler left a statement running", "55000");
    if (database_->state() == PQTRANS_INERROR)
        throw Error("the handler let an error of SQL in its transaction pass", "25P02");
    if (!database_->still_open())
        throw Error(database_->last_error() == "2D000"
                        ? "the handler ended the transaction by trying to commit it"
                        : "the handler ended the transaction",
                    "2D000");
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
                         std::to_string(next_offset)},
                        Database::AtStop::finish);
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
        catch (const std::exception &error)
        {
            // The record is tried again at once, or by others when the claim has expired.
            log_.warning("the dedup store: " + message_of(error));
        }
        throw;
    }
    // Whatever becomes of the confirmation, and of the partition, the effect is made.
    unconfirmed_ = Made{id, describe(held.record)};
    finish_first();
    confirm();
}

void
Processor::confirm()
{
    if (!store_.confirm(options_.consumer, unconfirmed_->event_id))
        log_.warning("the claim expired before the handler had ended, so the effect may have been "
                     "made twice: " +
                     unconfirmed_->description);
    unconfirmed_.reset();
    pauses_ = 0;
}

void
Processor::leave()
{
    if (!unconfirmed_)
        return;
    try
    {
        confirm();
    }
    catch (const std::exception &error)
    {
        log_.error("the effect is made, but the dedup store could not be told, so another process "
                   "may make it again: " +
                   unconfirmed_->description + ": " + message_of(error));
    }
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
            return one_by_one();
        ids.push_back(held.record.event_id);
    }
    (void) connection();
    database_->begin();
    // A handler that commits would mark the records that come after its own.
    if (!database_->guarded())
        return one_by_one();
    std::unordered_set<std::string> first;
    for (std::string &id : store_.claim_many(database_->connection(), options_.consumer, ids))
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
            return one_by_one();
    commit();
    return true;
}

bool
Processor::one_by_one()
{
    database_->rollback();
    singles_ = in_hand_.size();
    return false;
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
