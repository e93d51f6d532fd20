// What one relay has in the simulated database, and the transactions in which it changes that.
#pragma once

#include "database.h"

#include <optional>
#include <set>
#include <vector>

namespace outbox::sim
{

// Thrown by a statement that was the last thing the relay did.
struct Killed
{
};

// Of one subscription. The database knows each: a crash takes all of them back to the same moment.
class RelayStore
{
public:
    RelayStore(Database &database, SimClock &clock, Random &random, Trace &trace,
               const RelayTables &tables);
    ~RelayStore();
    RelayStore(const RelayStore &) = delete;
    RelayStore &operator=(const RelayStore &) = delete;

    const RelayTables &tables() const noexcept { return tables_; }

    // --- The relay's transaction ---
    void begin_transaction();
    void end_transaction(); // commits, without waiting for the disk
    void roll_back();
    bool in_transaction() const noexcept { return in_transaction_; }
    RelayTables &change(); // inside of it
    // To be called by each statement: it may fail, or be the last thing that the relay did.
    enum class Statement
    {
        reads,
        writes,
        sets_aside // writes outbox.deliveries
    };
    void statement(Statement kind);

    // --- Others: a transaction each, committed at once ---
    template <class Change> void operate(Change &&change_tables)
    {
        write(change_tables);
        database_.flush_log(database_.end_of_log());
    }
    // The same by the relay of `default`, which does not wait for the disk.
    template <class Change> void write(Change &&change_tables)
    {
        change_tables(tables_);
        log_tables();
    }
    // Whether a relay's process is there.
    void set_served(bool served) noexcept { served_ = served; }
    bool is_served() const noexcept { return served_; }
    void hold_row(Seq seq) { held_.insert(seq); }
    bool holds_rows() const noexcept { return !held_.empty(); }
    void release_rows() { held_.clear(); }
    bool may_change(Seq seq) const { return held_.count(seq) == 0; }

    // --- Accidents ---
    // So many, and all until this time.
    void fail_statements(int count, Time until = 0) noexcept
    {
        failing_ = count;
        fails_until_ = until;
    }
    bool writes_fail() const noexcept { return failing_ > 0 || clock_.at() < fails_until_; }
    // Whether a statement has failed since; true once.
    bool take_failed() noexcept;
    void kill_after(int calls) { kill_after_ = calls; }

    // --- For the database ---
    void flushed(Lsn lsn);
    // Goes back to what was flushed; the transaction id that was next then.
    Xid crash();
    void begin_anew(Lsn lsn, Xid next_xid);

private:
    void log_tables();

    Database &database_;
    SimClock &clock_;
    Random &random_;
    Trace &trace_;

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
    bool served_ = false;
    int failing_ = 0;
    Time fails_until_ = 0;
    std::int64_t writes_before_failure_ = 0; // of a transaction
    bool failed_ = false;
    int kill_after_ = -1;
};

} // namespace outbox::sim
