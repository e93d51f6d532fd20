// The steps in which effects are made, one by one or many in a transaction.
#include "names.h"
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

// Begins a transaction. False if that is with another session or server than before, where commits
// may be missing, and the records in hand are not the next ones there.
bool
Processor::begin()
{
    (void) connection();
    database_->begin();
    if (options_.offsets != OffsetPolicy::postgres || database_->session() == checked_session_)
        return true;
    if (!read_offsets_again())
        return true;
    database_->rollback();
    return false;
}

// Throws if that transaction, of an attempt that failed, was committed: what it marked as processed
// must not count as done. Only for events that are marked: if they are not, then it was not.
void
Processor::refuse_handlers_commit(const std::string &transaction)
{
    if (!transaction.empty() && database_->was_committed(transaction))
        throw HandlerCommitted();
}

// The claim would wait for a prepared one for ever.
void
Processor::expect_not_prepared()
{
    if (!attempted_.empty() && database_->is_prepared(attempted_))
        throw HandlerCommitted();
}

// A server that loses its connections at every commit says nothing about the record. Throws as that
// server does, which is no failure of the record.
void
Processor::prove_commits()
{
    (void) connection();
    database_->begin(); // a number is assigned, so there is something to commit
    database_->commit();
}

// The store has said that it is busy. Whoever has the event in hand may fail, so the record stays
// the next one of its partition until the store says something else.
void
Processor::wait_for_others(const Held &held)
{
    pause(++pauses_);
    log_.info("somebody else is processing " + name_of(held.record));
}

void
Processor::make_effect(const Held &held)
{
    if (losses_ > 0)
        prove_commits();
    if (!begin())
        return;
    expect_not_prepared();
    const Claim claim =
        store_.claim(database_->connection(), options_.consumer, held.record.event_id);
    if (claim == Claim::busy)
    {
        database_->rollback(); // with what the store has locked
        wait_for_others(held);
        return;
    }
    const bool is_first = claim == Claim::first;
    if (!is_first)
    {
        refuse_handlers_commit(attempted_);
        refuse_handlers_commit(attempted_batch_);
    }
    // Before the handler, which may do to the transaction what it likes.
    if (!store_offset(held.place(), held.record.offset + 1))
    {
        leave_out(held);
        return;
    }
    if (is_first)
        call_handler(held);
    commit();
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
    // One whose attempts are used up is not handled once more: its partition would be lost again
    // before its dead letter is written. But it was claimed, as another process may have made its
    // effect meanwhile.
    if (attempts_ >= options_.max_attempts)
        throw std::runtime_error(why_);
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
    budget_.restart();
    if (database_ != nullptr)
    {
        if (!database_->may_be_committed())
            attempted_.clear();
        check_what_the_handler_left(thrown != nullptr);
    }
    if (thrown)
        rethrow(thrown);
    in_handler_ = false;
}

namespace
{

// The statement that failed before `what`, if trying again can help.
void
throw_if_transient(const std::string &what, const std::string &sqlstate)
{
    const DatabaseError reason(what, sqlstate);
    if (reason.transient())
        throw reason; // NOLINT(cert-err60-cpp)
}

} // namespace

// What a handler has thrown, or what made it do so if that may pass by itself.
void
Processor::rethrow(const std::exception_ptr &thrown) const
{
    const std::string cause = database_ == nullptr ? "" : database_->seen().cause;
    try
    {
        std::rethrow_exception(thrown);
    }
    catch (const DatabaseError &)
    {
        throw;
    }
    catch (const std::exception &error)
    {
        throw_if_transient(message_of(error), cause);
        throw;
    }
    catch (...)
    {
        const std::string what = "the handler threw something that is no std::exception";
        throw_if_transient(what, cause);
        throw std::runtime_error(what);
    }
}

// Whether the transaction that holds the mark is still there, and in order. What the handler has
// thrown says more than what it has left, except that the connection is lost.
void
Processor::check_what_the_handler_left(bool thrown)
{
    database_->take_back();
    if (database_->finished())
        throw Error("the handler closed the connection that it was lent", "08003");
    if (database_->lost())
    {
        const std::string last = database_->seen().last_error;
        throw DatabaseError("the connection was lost in the handler",
                            last == "25P03" || last == "25P04" ? last : "08006");
    }
    if (thrown)
        return;
    if (in_pipeline_mode(database_->connection()) || database_->state() == PQTRANS_ACTIVE)
        throw Error("the handler left a statement running", "55000");
    if (database_->state() == PQTRANS_INERROR)
    {
        const std::string what = "the handler let an error of SQL in its transaction pass";
        throw_if_transient(what, database_->seen().cause);
        throw Error(what, "25P02");
    }
    if (!database_->still_open())
        throw Error(database_->seen().last_error == "2D000"
                        ? "the handler ended the transaction by trying to commit it"
                        : "the handler ended the transaction",
                    "2D000");
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
        wait_for_others(held);
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
        catch (...)
        {
            // The record is tried again at once, or by others when the claim has expired.
            log_.warning("the dedup store: " + message_of_thrown());
        }
        throw;
    }
    // Whatever becomes of the confirmation, and of the partition, the effect is made.
    unconfirmed_ = Made{id, name_of(held.record)};
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
    catch (...)
    {
        log_.error("the effect is made, but the dedup store could not be told, so another process "
                   "may make it again: " +
                   unconfirmed_->description + ": " + message_of_thrown());
    }
}

void
Processor::step_batch()
{
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
    Offsets next;
    for (const Held &held : in_hand_)
    {
        if (held.record.event_id.empty())
            return one_by_one("");
        ids.push_back(held.record.event_id);
        next[held.place()] = held.record.offset + 1;
    }
    if (!begin())
        return false;
    // A handler that commits would mark the records that come after its own.
    if (!database_->guarded())
        return one_by_one("");
    std::unordered_set<std::string> first;
    if (!claim_batch(ids, &first))
        return one_by_one("somebody else is processing an event of it");
    for (const auto &[place, offset] : next)
        if (!store_offset(place, offset))
            return one_by_one("");
    if (!handle_batch(std::move(first)))
        return false;
    commit();
    return true;
}

// False if the store is busy with one of them. claim_many() leaves that one out as it does those
// that were processed; only claim() tells which it is. Our own store waits instead.
bool
Processor::claim_batch(const std::vector<std::string> &ids, std::unordered_set<std::string> *first)
{
    for (std::string &id : store_.claim_many(database_->connection(), options_.consumer, ids))
        first->insert(std::move(id));
    if (!options_.store)
        return true;
    std::unordered_set<std::string> asked(*first);
    for (const std::string &id : ids)
    {
        if (!asked.insert(id).second)
            continue;
        const Claim claim = store_.claim(database_->connection(), options_.consumer, id);
        if (claim == Claim::busy)
            return false;
        if (claim == Claim::first)
            first->insert(id);
    }
    return true;
}

// Calls the handlers of the events in `first`, each as if it were alone in the session.
bool
Processor::handle_batch(std::unordered_set<std::string> first)
{
    bool called = false;
    for (const Held &held : in_hand_)
    {
        if (first.erase(held.record.event_id) == 0) // an event may be in a batch twice
            continue;
        in_handler_ = true; // what is wrong with the transaction now, a handler did
        std::string why;
        if ((called || savepoints_) &&
            !database_->set_apart(savepoints_ ? Database::Apart::savepoint : Database::Apart::reset,
                                  !called, &why))
        {
            savepoints_ = savepoints_ || database_->seen().savepoint;
            return one_by_one(why);
        }
        call_handler(held);
        called = true;
    }
    return true;
}

// The records in hand are to be done each in a transaction of its own.
bool
Processor::one_by_one(const std::string &why)
{
    database_->rollback();
    if (!why.empty())
        log_.info("a batch of " + std::to_string(in_hand_.size()) +
                  " is done again one by one: " + why);
    singles_ = in_hand_.size();
    attempted_batch_ = std::move(attempted_);
    attempted_.clear();
    return false;
}

} // namespace outbox::v0::detail
