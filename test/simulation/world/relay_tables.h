// What a relay has in the database: its own rows of outbox.deliveries, outbox.relay_position,
// outbox.pauses, outbox.subscriptions and its history.
#pragma once

#include "clock.h"

#include "bgworker/engine/common/xid_snapshot.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace outbox::sim
{

using Xid = std::uint64_t;
using Seq = std::int64_t;
using Lsn = std::uint64_t;

enum class DeliveryState
{
    waiting,
    retrying,
    failed,
    discarded
};

// A row of outbox.deliveries.
struct Delivery
{
    Seq seq = 0;
    Xid xid = 0;
    int slot = 0;
    int event = 0; // EventRow::number
    std::uint64_t lane = 0;
    std::string topic;
    std::string key;
    DeliveryState state = DeliveryState::waiting;
    bool blocking = false;
    int attempts = 0;
    Time next_attempt_at = 0;
};

// Rows by number, in one piece, as they are copied and read much more often than changed.
class DeliveryRows
{
public:
    using Item = std::pair<Seq, Delivery>;
    using iterator = std::vector<Item>::iterator;
    using const_iterator = std::vector<Item>::const_iterator;

    iterator begin() noexcept { return rows_.begin(); }
    iterator end() noexcept { return rows_.end(); }
    const_iterator begin() const noexcept { return rows_.begin(); }
    const_iterator end() const noexcept { return rows_.end(); }
    std::size_t size() const noexcept { return rows_.size(); }
    bool empty() const noexcept { return rows_.empty(); }
    const Item &back() const { return rows_.back(); }

    const_iterator find(Seq seq) const
    {
        const auto at = std::lower_bound(begin(), end(), seq, is_before);
        return at != end() && at->first == seq ? at : end();
    }
    iterator find(Seq seq)
    {
        const auto at = std::lower_bound(begin(), end(), seq, is_before);
        return at != end() && at->first == seq ? at : end();
    }
    std::size_t count(Seq seq) const { return find(seq) != end() ? 1 : 0; }
    const_iterator upper_bound(Seq seq) const
    {
        return std::lower_bound(begin(), end(), seq + 1, is_before);
    }
    // False, and the row that is there: there is one of this number.
    std::pair<iterator, bool> insert(const Delivery &row)
    {
        const auto at = std::lower_bound(begin(), end(), row.seq, is_before);
        if (at != end() && at->first == row.seq)
            return {at, false};
        return {rows_.insert(at, {row.seq, row}), true};
    }
    std::size_t erase(Seq seq)
    {
        const auto at = find(seq);
        if (at == end())
            return 0;
        rows_.erase(at);
        return 1;
    }
    void clear() noexcept { rows_.clear(); }

private:
    static bool is_before(const Item &item, Seq seq) noexcept { return item.first < seq; }

    std::vector<Item> rows_;
};

// outbox.subscription_history: what a subscription takes, by when it was committed. As
// bgworker/source/subscription.cpp has it.
class FilterHistory
{
public:
    bool is_default() const noexcept { return rows_ == nullptr; } // takes all
    // Of an event: by the last row whose snapshot does not see its transaction.
    bool takes(Xid xid, int type) const noexcept;
    // Whether it was to be sent before the subscription was detached.
    bool took(Xid xid, int type) const noexcept;

    void add(const XidSnapshot &since, bool takes, unsigned types);
    // The last row says that nothing is taken, as it was detached.
    void drop_last();

private:
    struct Row
    {
        XidSnapshot since;
        bool takes;
        unsigned types; // a bit each
    };
    std::shared_ptr<const std::vector<Row>> rows_;
};

// The row of outbox.relay_position.
struct PositionRow
{
    XidSnapshot from;
    XidSnapshot to;
    Seq last_seq = 0;
    std::int64_t published_total = 0;
};

// A row of outbox.replay_requests, with its list.
struct ReplayRow
{
    enum class State
    {
        asked,
        running,
        done,
        failed,
        cancelled
    };
    int number = 0; // of all of the subscription, from 1
    State state = State::asked;
    std::shared_ptr<const std::vector<int>> events; // EventRow::number
    int rate = 100;
    std::int64_t published = 0;
    std::int64_t refused = 0;
    std::int64_t missing = 0;

    bool has_ended() const noexcept { return state > State::running; }
};

// A transaction changes them as a whole. Copies share the rows of deliveries until one of them is
// changed: what a crash may go back to is many copies.
class RelayTables
{
public:
    PositionRow position;
    bool paused = false;
    bool left = false; // and that is why: the destination asks never to be called again
    // Of the row of outbox.subscriptions.
    FilterHistory filters;
    bool detached = false;
    std::int64_t missed = 0;
    std::vector<ReplayRow> replays;

    const DeliveryRows &deliveries() const noexcept { return *deliveries_; }
    DeliveryRows &change_deliveries()
    {
        if (deliveries_.use_count() > 1)
            deliveries_ = std::make_shared<DeliveryRows>(*deliveries_);
        return *deliveries_;
    }

private:
    std::shared_ptr<DeliveryRows> deliveries_ = std::make_shared<DeliveryRows>();
};

} // namespace outbox::sim
