// With offsets in PostgreSQL: where to continue, which is what the server of the moment says.
#include "names.h"
#include "processor.h"

namespace outbox::v0::detail
{

// False if somebody else has come this far, and so has processed the record, or written it to the
// dead letters, although we find it unprocessed.
bool
Processor::store_offset(const TopicPartition &place, std::int64_t next_offset,
                        Database::AtStop at_stop)
{
    if (options_.offsets != OffsetPolicy::postgres)
        return true;
    const Result result =
        database_->exec("select outbox.record_offset($1, $2, $3, $4)",
                        {options_.consumer, place.topic, std::to_string(place.partition),
                         std::to_string(next_offset)},
                        at_stop);
    return result.text(0, 0) == "t";
}

void
Processor::store_offset_alone()
{
    const Held &held = in_hand_.front();
    if (!begin())
        return;
    // At least as far is enough.
    (void) store_offset(held.place(), held.record.offset + 1, Database::AtStop::finish);
    database_->commit();
    finish_first();
}

// The stored offset is beyond the record: somebody else has processed it, or written it to the dead
// letters.
void
Processor::leave_out(const Held &held)
{
    database_->rollback();
    log_.info("left out, as the offset in PostgreSQL is beyond it: " + name_of(held.record));
    if (!read_offsets_again())
        finish_first();
}

// Goes where the offsets in PostgreSQL are now. Whether that is another place than before, or it
// has to be tried again.
bool
Processor::read_offsets_again()
{
    bool moved = true;
    try
    {
        moved = group_->continue_at(ask_offsets());
    }
    catch (const KafkaError &error)
    {
        checked_session_ = 0;
        pause_after("stored offsets", error.what());
    }
    drop_what_was_given_up();
    return moved;
}

// While there is nothing to do: a server that comes back may have lost commits.
void
Processor::step_idle()
{
    if (options_.offsets == OffsetPolicy::postgres && !begin())
        return;
    store_ends();
}

// Otherwise the stored offset would be gone when retention has taken what lies behind it, though
// there was no record that anybody could miss.
void
Processor::store_ends()
{
    const Offsets ends = group_->ends();
    ends_due_ = Clock::now() + options_.commit_interval;
    for (const auto &[place, end] : ends)
        (void) store_offset(place, end, Database::AtStop::finish); // at least as far is enough
    if (options_.offsets == OffsetPolicy::postgres && ends.empty())
        database_->rollback();
    else if (options_.offsets == OffsetPolicy::postgres)
        database_->commit();
    for (const auto &[place, end] : ends)
        group_->passed(place, end);
}

bool
Processor::wants_step() const
{
    return idle() &&
           ((options_.offsets == OffsetPolicy::postgres && database_->lost_while_idle()) ||
            (Clock::now() >= ends_due_ && group_->has_ends()));
}

Offsets
Processor::stored_offsets()
{
    (void) connection();
    return ask_offsets();
}

Offsets
Processor::ask_offsets()
{
    const Result result =
        database_->exec("select topic, kafka_partition, next_offset from outbox.stored_offsets($1)",
                        {options_.consumer});
    checked_session_ = database_->session();
    Offsets offsets;
    for (int row = 0; row < result.rows(); ++row)
        offsets[{result.text(row, 0), std::stoi(result.text(row, 1))}] =
            std::stoll(result.text(row, 2));
    return offsets;
}

} // namespace outbox::v0::detail
