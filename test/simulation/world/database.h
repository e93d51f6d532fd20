// A simulated PostgreSQL, as far as an outbox needs one: transactions with ids and snapshots, the
// table of events, a write-ahead log, and crashes. What each relay has in it is in relay_store.h.
#pragma once

#include "clock.h"
#include "random.h"
#include "relay_tables.h"
#include "trace.h"

#include "bgworker/engine/common/lanes.h"
#include "bgworker/engine/common/window_keys.h"
#include "bgworker/engine/common/xid_snapshot.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace outbox::sim
{

constexpr int kSlots = 8;

// A row of outbox.events, and what nobody in the simulated world knows of it: its number for the
// checker.
struct EventRow
{
    int number = 0; // of all events of the history; they are unique also when seq is used again
    Seq seq = 0;
    Xid xid = 0;
    int slot = 0;
    int type = 0; // its route says the topic
    int key = 0;
    int bytes = 100;
    bool invalid = false;    // brokers that look at records refuse it
    bool unreadable = false; // no record can be made of it
    Time emitted_at = 0;
};

// What a session may have locked.
enum class Table
{
    events, // or outbox.deliveries, or outbox.pauses: no step can begin
    position,
    routes,
    ticks
};
constexpr int kTables = 4;

// A session's transaction.
struct Transaction
{
    enum class State
    {
        open,
        prepared,
        committed,
        aborted
    };
    State state = State::open;
    Xid xid = 0; // 0: none yet
    bool synchronous = true;
    Lsn commit_lsn = 0;
    std::vector<int> events;             // EventRow::number
    std::vector<std::size_t> savepoints; // how many events there were
};

// The checker's ears: hears what is true of an event, whatever the relay may think.
class EventFate
{
public:
    virtual ~EventFate() = default;
    virtual void emitted(const EventRow &row) = 0;
    virtual void committed(int event) = 0; // visible from now on
    virtual void vanished(int event) = 0;  // rolled back, or forgotten by a crash
    virtual void removed(int event) = 0;   // with its slot
};

class RelayStore;

// outbox.routes, by type.
struct Routes
{
    std::vector<std::string> topics;
    std::vector<bool> blocks; // on_failure
};

class Database
{
public:
    Database(SimClock &clock, Random &random, Trace &trace, EventFate &fate, int types,
             const SipKey &lane_key = {0, 0});

    // --- Sessions ---
    void begin(int session);
    void emit(int session, EventRow row); // sets seq, xid, slot, emitted_at
    void savepoint(int session);
    void rollback_to_savepoint(int session);
    void prepare(int session);
    void commit(int session, bool synchronous); // a prepared one too
    void rollback(int session);
    bool has_transaction(int session) const;
    // It writes something other than events.
    void assign_xid(int session);

    // --- The server ---
    void flush_log(Lsn lsn); // at least up to here
    Lsn end_of_log() const noexcept { return next_lsn_; }
    Lsn flushed() const noexcept { return flushed_; }
    // All processes die; what was not flushed is forgotten, or some of it. Sessions are gone, but
    // prepared transactions are not.
    void crash();
    void rotate(); // new events go to the next slot, if that is empty
    // One whose events all subscriptions have passed that are attached, and need no row of; counts
    // what others miss of it. False: there is none.
    bool empty_one_slot();
    bool holds_since(const RelayStore &store, Time time) const;
    // What a detached subscription leaves out when it goes on from this snapshot.
    std::int64_t count_left_out(const RelayStore &store, const XidSnapshot &begins) const;
    // What the subscription has published, of a type, or of all: -1. The oldest first.
    std::vector<int> replayable(const RelayStore &store, int type, std::size_t most) const;
    // All that the snapshot sees is published by now, by `default`.
    void add_tick(const XidSnapshot &snapshot) { ticks_.emplace_back(clock_.at(), snapshot); }
    void lock(Table table, Time until) { locked_until_[static_cast<int>(table)] = until; }
    bool is_locked(Table table) const
    {
        return clock_.at() < locked_until_[static_cast<int>(table)];
    }
    // Of one that is set aside, or read again.
    void set_cost_of_a_row(Time cost) noexcept { cost_of_a_row_ = cost; }
    Time cost_of_a_row() const noexcept { return cost_of_a_row_; }
    void set_standby_lag(bool lags);
    bool standby_lags() const { return standby_lags_; }
    bool standby_has(Lsn lsn) const { return !standby_lags_ || lsn <= on_standby_; }

    // --- Relays ---
    // What one of them has. A change of it is a transaction, whose id is spent, and is written to
    // the log.
    void add(RelayStore &store) { stores_.push_back(&store); }
    void remove(RelayStore &store);
    const RelayStore &of_default() const { return *stores_.front(); }
    void spend_xid();
    Xid next_xid() const noexcept { return next_xid_; }
    Lsn write_log() noexcept { return ++next_lsn_; }
    XidSnapshot snapshot() const;
    // Calls visit(xid, seq, locator) for what the index on (xid, seq) of a slot has in the range.
    template <class Visit> void scan(const IndexRange &range, Visit &&visit) const
    {
        const auto &index = index_[range.slot];
        for (auto at = index.lower_bound({range.first.xid, range.first.seq}); at != index.end();
             ++at)
        {
            if (range.last < IndexPoint{at->first.first, at->first.second})
                return;
            visit(at->first.first, at->first.second, static_cast<Locator>(at->second));
        }
    }
    // The row, if its transaction has committed and no rollback took it back.
    const EventRow *fetch(Locator locator) const;
    const EventRow *find(int slot, Xid xid, Seq seq) const;
    // Up to where the log must be flushed before events of committed transactions may be published.
    Lsn commit_lsn(Xid xid) const;
    // What could not be read can be.
    void repair()
    {
        for (EventRow &row : rows_)
            row.unreadable = false;
    }

    const EventRow &row(int event) const { return rows_.at(static_cast<std::size_t>(event)); }
    bool is_committed(int event) const;
    // Whether its commit is on disk.
    bool is_durable(int event) const;
    std::uint64_t committed_events() const noexcept { return committed_events_; }

    // --- By which key's hashes lines are told apart: the same ---
    const SipKey &lane_key() const noexcept { return lane_key_; }
    void change_lane_key() noexcept { lane_key_.k1++; }

    // --- Routes: all relays have the same ---
    const Routes &routes() const noexcept { return routes_; }
    std::uint64_t routes_version() const noexcept { return routes_version_; }
    template <class Change> void change_routes(Change &&change)
    {
        change(routes_);
        flush_log(write_log());
        routes_version_++;
    }

private:
    Xid assign_xid(Transaction &transaction);
    void finish(Transaction &transaction, bool committed);
    void take_back(int event);
    bool has_passed(int slot, const RelayStore &store) const;
    bool has_settled(int slot, const RelayStore &store) const;
    bool is_replayed(int slot, const RelayStore &store) const;
    bool may_be_emptied(int slot) const;
    std::int64_t count_missed(int slot, const RelayStore &store, const XidSnapshot *until) const;
    void let_go(int slot, RelayStore &store);
    void empty(int slot);

    SimClock &clock_;
    Random &random_;
    Trace &trace_;
    EventFate &fate_;

    std::map<int, Transaction> sessions_;
    std::set<Xid> running_;
    std::map<Xid, Lsn> commits_; // by transaction
    Xid next_xid_ = 700;
    Xid latest_completed_ = 699;
    Seq next_seq_ = 1;
    std::vector<EventRow> rows_;
    std::vector<char> alive_; // by event: its row has not been rolled back or removed
    std::map<std::pair<Xid, Seq>, int> index_[kSlots];
    int current_slot_ = 0;
    std::vector<std::pair<Time, XidSnapshot>> ticks_;

    Lsn next_lsn_ = 1;
    Lsn flushed_ = 0;
    Lsn on_standby_ = 0;
    bool standby_lags_ = false;

    std::vector<RelayStore *> stores_; // the first one is that of `default`
    Routes routes_;
    SipKey lane_key_;
    Time locked_until_[kTables] = {};
    Time cost_of_a_row_ = 0;
    std::uint64_t routes_version_ = 1;
    std::uint64_t committed_events_ = 0; // since the server started
};

} // namespace outbox::sim
