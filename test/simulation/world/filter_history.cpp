// What a subscription takes, as bgworker/source/subscription.cpp decides it.
#include "relay_tables.h"

#include "bgworker/engine/mutant.h"

namespace outbox::sim
{

bool
FilterHistory::takes(Xid xid, int type) const noexcept
{
    if (is_default())
        return true;
    for (auto row = rows_->rbegin(); row != rows_->rend(); ++row)
        if (!row->since.visible(xid) || OUTBOX_MUTANT(filters_by_now))
            return row->takes && (row->types >> type & 1) != 0;
    return false;
}

bool
FilterHistory::took(Xid xid, int type) const noexcept
{
    for (auto row = rows_->rbegin(); row != rows_->rend(); ++row)
        if (row->takes && (!row->since.visible(xid) || OUTBOX_MUTANT(counts_by_last_types)))
            return (row->types >> type & 1) != 0;
    return false;
}

void
FilterHistory::add(const XidSnapshot &since, bool takes, unsigned types)
{
    auto rows = is_default() ? std::vector<Row>() : *rows_;
    rows.push_back({since, takes, types});
    rows_ = std::make_shared<const std::vector<Row>>(std::move(rows));
}

void
FilterHistory::drop_last()
{
    rows_ = std::make_shared<const std::vector<Row>>(rows_->begin(), rows_->end() - 1);
}

} // namespace outbox::sim
