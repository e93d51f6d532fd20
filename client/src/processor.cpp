#include "processor.h"

#include "names.h"
#include "text.h"

namespace outbox::v0::detail
{

namespace
{

// The server may be restarted while a handler runs, and again; but not by chance so often while it
// takes new connections and lets the same handler begin.
constexpr int kMaxLosses = 10;

} // namespace

Processor::Processor(const ConsumerOptions &options, const Handler &handler, Database *database,
                     DedupStore &store, DeadLetters &dead_letters, const StopFlag &stop,
                     StopBudget &budget, const Log &log)
    : options_(options), handler_(handler), database_(database), store_(store),
      dead_letters_(dead_letters), stop_(stop), budget_(budget), log_(log),
      random_(std::random_device()())
{
}

void
Processor::join(GroupMember *group)
{
    group_ = group;
    in_hand_.clear();
    left_.clear();
    singles_ = 0;
    reset_first();
}

void
Processor::reset_first()
{
    stage_ = Stage::effect;
    attempts_ = 0;
    losses_ = 0;
    pauses_ = 0;
    attempted_.clear();
    if (singles_ == 0)
        attempted_batch_.clear();
    due_ = Clock::now();
}

// A handler that fails after max.poll.interval.ms has lost the partition by then. It comes back,
// mostly to us.
void
Processor::remember_tries(const Held &held)
{
    if (attempts_ > 0 || losses_ > 0 || singles_ > 0)
        left_[held.place()] = {held.record.offset, held.record.event_id, attempts_, losses_, why_};
}

void
Processor::take_up_tries()
{
    const Held &held = in_hand_.front();
    const auto found = left_.find(held.place());
    // Earlier ones may come again before it.
    if (found == left_.end() || stage_ != Stage::effect ||
        held.record.offset < found->second.offset)
        return;
    const Tries tries = std::move(found->second);
    left_.erase(found);
    if (tries.offset != held.record.offset || tries.event_id != held.record.event_id)
        return;
    if (in_hand_.size() > 1)
        singles_ = std::max<std::size_t>(singles_, 1);
    attempts_ = tries.attempts;
    losses_ = tries.losses;
    why_ = tries.why;
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
        if (first)
            remember_tries(*held);
        held = in_hand_.erase(held);
        if (first)
            reset_first();
    }
    singles_ = std::min(singles_, in_hand_.size());
    if (singles_ == 0)
        attempted_batch_.clear();
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

PGconn *
Processor::connection()
{
    if (database_->lost())
        log_.info("connecting to PostgreSQL");
    return database_->connection();
}

// Missing objects, missing rights, a consumer's name that the database does not take: only a person
// can help, and it is not the record's fault.
void
Processor::end_if_misconfigured(const DatabaseError &error) const
{
    const std::string type = error.code().substr(0, 2);
    if (!in_handler_ && (type == "42" || type == "3F" || type == "22"))
        throw DatabaseError("the database is not set up for this consumer: " +
                                std::string(error.what()),
                            error.code(), error.hint());
}

std::string
Processor::first() const
{
    return in_hand_.empty() ? "" : ": " + name_of(in_hand_.front().record);
}

void
Processor::database_failed(const DatabaseError &error)
{
    const std::string why = std::string(error.what()) + " (" + error.code() + ")";
    const bool ours = database_ != nullptr && database_->lost();
    const bool lost = ours || error.connection_lost();
    if (database_ != nullptr)
        database_->rollback();
    end_if_misconfigured(error);
    // The server ends a transaction that its client leaves idle, or open, for too long: who is slow
    // is the handler.
    const bool slow = error.code() == "25P03" || error.code() == "25P04";
    if (in_handler_ && (slow || (!lost && !error.transient())))
    {
        failed(why);
        return;
    }
    if (in_handler_ && lost)
    {
        lost_in_handler(why, ours);
        return;
    }
    // Of a server that has become read-only, the next connection may find the other one.
    if (database_ != nullptr && (lost || error.code() == "25006"))
        database_->drop();
    pause_after("will be tried again" + first(), why);
}

// Nobody's fault, unless a record does it again and again: it may crash its backend, or take longer
// than something between here and the server keeps a silent connection. What the handler throws of
// a connection of its own, or of one that the server has (postgres_fdw), may also come each time.
void
Processor::lost_in_handler(const std::string &why, bool ours)
{
    if (ours)
        database_->drop();
    if (singles_ == 0 && in_hand_.size() > 1)
        (void) one_by_one("");
    else
        ++losses_;
    why_ = why;
    const int limit = std::max(kMaxLosses, options_.max_attempts);
    if (losses_ < limit)
        pause_after("will be tried again" + first(), why);
    else
        write_dead_letter((ours ? "the" : "a") +
                              std::string(" connection was lost in the handler ") +
                              std::to_string(losses_) + " times: " + why,
                          losses_);
}

// What is thrown outside of the handler is nobody's fault in the group of records: the way is tried
// again, unless it is a mistake that somebody has to mend.
void
Processor::step()
{
    in_handler_ = false;
    try
    {
        if (!in_hand_.empty() && !unconfirmed_)
            take_up_tries();
        const bool batch = singles_ == 0 && in_hand_.size() > 1 && !unconfirmed_;
        if (idle())
            step_idle();
        else if (batch)
            step_batch();
        else
            step_first();
        return;
    }
    catch (const Stopped &)
    {
        throw;
    }
    catch (const HandlerCommitted &error)
    {
        database_->drop();
        write_dead_letter(error.what(), attempts_);
    }
    catch (const DatabaseError &error)
    {
        database_failed(error);
    }
    catch (const Error &error)
    {
        const std::string why = std::string(error.what()) + " (" + error.code() + ")";
        const bool final = dynamic_cast<const KafkaError *>(&error) != nullptr ||
                           dynamic_cast<const UsageError *>(&error) != nullptr;
        if (in_handler_)
            failed(why);
        else if (final) // a dead letter, the group, an argument
            throw;
        else
            store_failed(why);
    }
    catch (const std::exception &error)
    {
        if (in_handler_)
            failed(message_of(error));
        else
            store_failed(message_of(error));
    }
    catch (...)
    {
        store_failed(message_of_thrown());
    }
    in_handler_ = false;
}

void
Processor::store_failed(const std::string &why)
{
    if (database_ != nullptr)
        database_->rollback();
    pause_after("the dedup store" + first(), why);
}

void
Processor::step_first()
{
    if (unconfirmed_)
    {
        confirm();
        return;
    }
    switch (stage_)
    {
    case Stage::effect:
    {
        const Held &held = in_hand_.front();
        if (held.record.event_id.empty())
            write_dead_letter("the record has no UUID in its header \"id\" or \"ce_id\"", 0);
        else if (database_ == nullptr)
            make_external_effect(held);
        else
            make_effect(held);
        break;
    }
    case Stage::offset:
        store_offset_alone();
        break;
    }
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
        (void) one_by_one("");
        return;
    }
    attempts_ = std::min(attempts_ + 1, options_.max_attempts);
    why_ = why;
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

} // namespace outbox::v0::detail
