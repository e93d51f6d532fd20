#include "changes.h"

#include "bgworker/engine/mutant.h"

namespace outbox::sim
{

using Kind = Act::Kind;

namespace
{

constexpr int kSession = 5000; // no other one has this number
constexpr Time kLongestWait = 10 * kSecond;

} // namespace

bool
Changes::holds_ring() const noexcept
{
    return change_ && (change_->act.kind == Kind::create || change_->act.kind == Kind::attach);
}

bool
Changes::holds(const Subscription &one) const noexcept
{
    return change_ && change_->act.subscription == one.number();
}

bool
Changes::may(const Act &act) const
{
    const auto number = static_cast<std::size_t>(act.subscription);
    if (change_ || number == 0 || number >= all_.size())
        return false;
    const Subscription &one = *all_[number];
    switch (act.kind)
    {
    case Kind::create:
        return !one.exists();
    case Kind::alter:
        return one.exists() && !one.is_detached();
    case Kind::attach:
        return one.is_detached();
    default:
        return one.exists();
    }
}

void
Changes::call(const Act &act)
{
    if (!may(act))
        return;
    change_ = Change();
    change_->act = act;
    change_->called_at = clock_.at();
    if (act.kind == Kind::create)
        return begin();
    Subscription &one = *all_[static_cast<std::size_t>(act.subscription)];
    if (act.kind == Kind::alter && OUTBOX_MUTANT(alters_while_it_runs))
        return begin();
    one.relay().hold(true);
    one.restart();
    change_->waits = true;
    advance();
}

void
Changes::advance()
{
    if (!change_ || !change_->waits)
        return;
    Subscription &one = *all_[static_cast<std::size_t>(change_->act.subscription)];
    if (one.relay().is_down())
        return begin();
    if (clock_.at() < change_->called_at + kLongestWait)
        return;
    trace_.say("the relay has not ended");
    one.relay().hold(false);
    change_.reset();
}

// The own transaction counts as running: what it emits is yet to commit.
void
Changes::begin()
{
    Subscription &one = *all_[static_cast<std::size_t>(change_->act.subscription)];
    change_->waits = false;
    database_.begin(kSession);
    database_.assign_xid(kSession);
    change_->begins = database_.snapshot();
    one.checker().changes();
    trace_.is_about("");
    trace_.say("a transaction %s subscription %d, at %s",
               change_->act.kind == Kind::create   ? "creates"
               : change_->act.kind == Kind::alter  ? "alters"
               : change_->act.kind == Kind::attach ? "attaches"
                                                   : "drops",
               one.number(), change_->begins.to_text().c_str());
    if (change_->act.c != 0)
        database_.emit(kSession, EventRow());
    if (change_->act.kind == Kind::attach && change_->act.a == 0)
        change_->left_out = database_.count_left_out(one.store(), change_->begins);
    if (change_->commits)
        finish(*change_->commits);
}

void
Changes::end(bool commits)
{
    if (!change_)
        return;
    change_->commits = commits;
    if (!change_->waits)
        finish(commits);
}

void
Changes::finish(bool commits)
{
    Subscription &one = *all_[static_cast<std::size_t>(change_->act.subscription)];
    trace_.is_about("");
    if (commits)
        apply(one);
    if (commits)
        database_.commit(kSession, true);
    else
        database_.rollback(kSession);
    if (OUTBOX_MUTANT(alters_while_it_runs) && one.exists())
        one.restart();
    if (one.exists())
        one.relay().hold(false);
    change_.reset();
}

void
Changes::crashed()
{
    if (!change_)
        return;
    Subscription &one = *all_[static_cast<std::size_t>(change_->act.subscription)];
    if (one.exists())
        one.relay().hold(false);
    change_.reset();
}

void
Changes::apply(Subscription &one)
{
    switch (change_->act.kind)
    {
    case Kind::create:
        return create(one);
    case Kind::alter:
        return alter(one);
    case Kind::attach:
        return attach(one);
    default:
        if (OUTBOX_MUTANT(clears_others))
            for (auto &other : all_)
                if (other->exists())
                    other->store().operate([](RelayTables &tables)
                                           { tables.change_deliveries().clear(); });
        one.drop();
        return;
    }
}

void
Changes::create(Subscription &one)
{
    const bool retained = change_->act.b != 0;
    XidSnapshot begins = retained ? XidSnapshot() : change_->begins;
    if (!retained && OUTBOX_MUTANT(begins_behind_open))
        (void) XidSnapshot::parse(
            std::to_string(begins.xmax()) + ':' + std::to_string(begins.xmax()) + ':', begins);
    one.types = static_cast<unsigned>(change_->act.a);
    RelayTables tables;
    tables.position = {begins, begins, 0, 0};
    if (OUTBOX_MUTANT(begins_with_another))
        tables.position = all_.front()->store().tables().position;
    tables.filters.add(begins, true, one.types);
    database_.flush_log(database_.end_of_log());
    one.begin(tables);
    one.attached_at = clock_.at();
    one.checker().created(one.types, retained);
}

void
Changes::alter(Subscription &one)
{
    one.types = static_cast<unsigned>(change_->act.a);
    one.checker().altered(one.types);
    one.store().operate([&](RelayTables &tables)
                        { tables.filters.add(change_->begins, true, one.types); });
}

void
Changes::attach(Subscription &one)
{
    const bool retained = change_->act.a != 0;
    one.attached_at = clock_.at();
    one.checker().attached(retained);
    one.store().operate(
        [&](RelayTables &tables)
        {
            tables.detached = false;
            if (retained)
                return tables.filters.drop_last();
            tables.missed += change_->left_out;
            tables.position.from = tables.position.to = change_->begins;
            tables.position.last_seq = 0;
            tables.filters.add(change_->begins, true, one.types);
        });
    one.checker().check_missed();
}

} // namespace outbox::sim
