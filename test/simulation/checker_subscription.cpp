// What a subscription takes, by when it commits, and what it misses. The order in which things
// happened decides here; the simulated database goes by snapshots, as the product does.
#include "checker.h"

#include <algorithm>

namespace outbox::sim
{

void
Checker::take(int event, bool taken)
{
    Fact &fact = facts_[static_cast<std::size_t>(event)];
    fact.taken = taken;
    if (taken && fact.copies == 0)
        pending_.insert(event);
    else
        pending_.erase(event);
}

void
Checker::created(unsigned types, bool retained)
{
    types_ = types;
    missed_ = 0;
    detached_ = false;
    total_known_ = true;
    rounds_then_ = acknowledged_ = 0;
    keys_.clear();
    replays_.clear();
    places_.clear();
    position_known_ = false;
    for (std::size_t event = 0; event < facts_.size(); event++)
    {
        Fact &fact = facts_[event];
        const auto number = static_cast<int>(event);
        const bool in_time = retained ? !fact.removed : fact.committed_stamp > called_stamp_;
        fact.copies = fact.doubts = fact.refusals = 0;
        fact.skipped = fact.unplaced = fact.heard = fact.streamed = false;
        if (fact.committed && !fact.gone)
            take(number, in_time && (types >> database_->row(number).type & 1) != 0);
    }
    disturbed(kSecond);
}

void
Checker::altered(unsigned types)
{
    types_ = types;
    for (std::size_t event = 0; event < facts_.size(); event++)
    {
        const Fact &fact = facts_[event];
        const auto number = static_cast<int>(event);
        if (fact.committed && !fact.gone && fact.committed_stamp > called_stamp_)
            take(number, (types >> database_->row(number).type & 1) != 0);
    }
}

void
Checker::dropped()
{
    types_ = 0;
    store_ = nullptr;
    cluster_ = nullptr;
    pending_.clear();
}

void
Checker::detached() noexcept
{
    missed_before_ = missed_;
    missed_ = 0;
    detached_ = true;
}

// Nothing was removed since: that would have been flushed, and with it that it was detached.
void
Checker::crashed() noexcept
{
    position_known_ = false;
    if (store_ == nullptr || !detached_ || store_->tables().detached)
        return;
    missed_ = missed_before_;
    detached_ = false;
}

// Its relay will not send it any more: it has neither passed it nor set it aside.
bool
Checker::is_missed(int event) const
{
    const EventRow &row = database_->row(event);
    const Fact &fact = facts_[static_cast<std::size_t>(event)];
    return fact.taken && fact.committed && !fact.gone && !fact.removed && !is_covered(row) &&
           store_->tables().deliveries().count(row.seq) == 0;
}

// It may arrive all the same, late.
void
Checker::miss(int event)
{
    facts_[static_cast<std::size_t>(event)].skipped = true;
    total_known_ = false;
    pending_.erase(event);
}

void
Checker::attached(bool retained)
{
    detached_ = position_known_ = false;
    disturbed(kSecond);
    if (retained)
        return;
    for (std::size_t event = 0; event < facts_.size(); event++)
        if (facts_[event].committed_stamp < called_stamp_ && is_missed(static_cast<int>(event)))
        {
            missed_++;
            miss(static_cast<int>(event));
        }
}

void
Checker::removed(int event)
{
    Fact &fact = facts_[static_cast<std::size_t>(event)];
    const EventRow &row = database_->row(event);
    if (store_ != nullptr && !store_->tables().detached && pending_.count(event) > 0)
        fail("lost", "event " + std::to_string(event) + " is removed before it was published");
    if (store_ != nullptr && !store_->tables().detached &&
        !store_->tables().position.from.visible(row.xid))
        fail("lost", "event " + std::to_string(event) +
                         " is removed, and the subscription has not passed it");
    if (store_ != nullptr && store_->tables().detached)
    {
        const bool set_aside = store_->tables().deliveries().count(row.seq) > 0;
        missed_ += set_aside || is_missed(event) ? 1 : 0;
        total_known_ = total_known_ && fact.copies == 0;
        if (fact.taken && fact.copies == 0)
            miss(event);
    }
    fact.removed = true;
}

void
Checker::check_missed()
{
    if (store_ != nullptr && store_->tables().missed != missed_)
        fail("missed", "the subscription misses " + std::to_string(missed_) +
                           " events, and says that these are " +
                           std::to_string(store_->tables().missed));
}

bool
Checker::has_passed_all() const
{
    if (store_ == nullptr)
        return true;
    const XidSnapshot &passed = store_->tables().position.from;
    for (std::size_t event = 0; event < facts_.size(); event++)
    {
        const Fact &fact = facts_[event];
        if (fact.committed && !fact.gone && !fact.removed &&
            !passed.visible(database_->row(static_cast<int>(event)).xid))
            return false;
    }
    return true;
}

} // namespace outbox::sim
