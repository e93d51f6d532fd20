// A simulated PostgreSQL, as far as an outbox needs one: transactions with ids and snapshots, the
// table of events, the relay's own tables, a write-ahead log, and crashes.
#pragma once

#include "clock.h"
#include "random.h"
#include "trace.h"

#include "bgworker/engine/common/window_keys.h"
#include "bgworker/engine/common/xid_snapshot.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace outbox::sim
{

using Xid = std::uint64_t;
using Seq = std::int64_t;
using Lsn = std::uint64_t;

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

// The row of outbox.relay_position.
struct PositionRow
{
    XidSnapshot from;
    XidSnapshot to;
    Seq last_seq = 0;
    std::int64_t published_total = 0;
};

// What a relay writes; a transaction changes it as a whole.
struct RelayTables
{
    std::map<Seq, Delivery> deliveries;
    PositionRow position;
    bool paused = false;
    std::vector<std::string> topics; // by type: outbox.routes
    std::vector<bool> blocks;        // by type: on_failure
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

// Thrown by a statement that was the last thing the relay did.
struct Killed
{
};

class Database
{
public:
    Database(SimClock &clock, Random &random, Trace &trace, EventFate &fate, int types);

    // --- Sessions ---
    void begin(int session);
    void emit(int session, EventRow row); // sets seq, xid, slot, emitted_at
    void savepoint(int session);
    void rollback_to_savepoint(int session);
    void prepare(int session);
    void commit(int session, bool synchronous); // a prepared one too
    void rollback(int session);
    bool has_transaction(int session) const;

    // --- The server ---
    void flush_log(Lsn lsn); // at least up to here
    Lsn end_of_log() const noexcept { return next_lsn_; }
    Lsn flushed() const noexcept { return flushed_; }
    // All processes die; what was not flushed is forgotten, or some of it. Sessions are gone, but
    // prepared transactions are not.
    void crash();
    void rotate();         // new events go to the next slot, if that is empty
    bool empty_one_slot(); // one whose events are all published and need no row; false: none
    void lock(Table table, Time until) { locked_until_[static_cast<int>(table)] = until; }
    bool is_locked(Table table) const
    {
        return clock_.at() < locked_until_[static_cast<int>(table)];
    }
    void hold_row(Seq seq) { held_.insert(seq); }
    void release_rows() { held_.clear(); }
    void fail_statements(int count) { failing_ = count; }
    // Of one that is set aside, or read again.
    void set_cost_of_a_row(Time cost) noexcept { cost_of_a_row_ = cost; }
    void look_at_row() { clock_.advance(cost_of_a_row_); }
    // Together, in their order, that takes less.
    void look_at_all_rows()
    {
        constexpr Time kTogether = 50;
        const auto rows = static_cast<Time>(tables_.deliveries.size());
        clock_.advance(rows * cost_of_a_row_ / kTogether);
    }
    void kill_after(int calls) { kill_after_ = calls; }
    void set_standby_lag(bool lags);
    bool standby_lags() const { return standby_lags_; }
    bool standby_has(Lsn lsn) const { return !standby_lags_ || lsn <= on_standby_; }

    // --- The relay's transaction ---
    void begin_relay_transaction();
    void end_relay_transaction(); // commits, without waiting for the disk
    void roll_back_relay();
    bool in_relay_transaction() const noexcept { return in_transaction_; }
    // To be called by each statement: it may fail, or be the last thing that the relay did.
    enum class Statement
    {
        reads,
        writes,
        sets_aside // writes outbox.deliveries
    };
    void statement(Statement kind);
    // Whether one has failed since; true once.
    bool take_failed() noexcept;
    bool writes_fail() const noexcept { return failing_ > 0; }
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
    const RelayTables &tables() const noexcept { return tables_; }
    bool may_change(Seq seq) const { return held_.count(seq) == 0; }
    RelayTables &change(); // inside of a relay's transaction

    // --- Operators: a transaction each, committed at once ---
    template <class Change> void operate(Change &&change_tables)
    {
        change_tables(tables_);
        log_tables();
        flush_log(next_lsn_);
    }

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
    std::uint64_t routes_version() const noexcept { return routes_version_; }
    void routes_have_changed() noexcept { routes_version_++; }

private:
    Xid assign_xid(Transaction &transaction);
    void finish(Transaction &transaction, bool committed);
    void log_tables();
    void take_back(int event);

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

    Lsn next_lsn_ = 1;
    Lsn flushed_ = 0;
    Lsn on_standby_ = 0;
    bool standby_lags_ = false;

    RelayTables tables_;
    bool in_transaction_ = false;
    std::optional<RelayTables> undo_; // once it has changed something
    bool changed_ = false;
    // What a crash may go back to: the last version flushed, and those after it.
    struct Version
    {
        Lsn lsn;
        Xid next_xid;
        RelayTables tables;
    };
    std::vector<Version> versions_;

    std::set<Seq> held_;
    Time locked_until_[kTables] = {};
    Time cost_of_a_row_ = 0;
    int failing_ = 0;
    std::int64_t writes_before_failure_ = 0; // of a transaction
    bool failed_ = false;
    int kill_after_ = -1;
    std::uint64_t routes_version_ = 1;
    std::uint64_t committed_events_ = 0; // since the server started
};

} // namespace outbox::sim
