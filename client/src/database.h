// The consumer's own connection to PostgreSQL.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <libpq-events.h>
#include <libpq-fe.h>

#include "connect.h"
#include "log.h"
#include "seen_statements.h"
#include "sql.h"
#include "stop_budget.h"

namespace outbox::v0::detail
{

// Connects when it is first needed and whenever the last connection is gone. Waits of its own
// statements end with Stopped when `stop` is raised; the connection is gone then, and with it
// whatever its transaction held.
class Database
{
public:
    // Whether a stop ends the wait for a statement at once, or only when its budget is used up:
    // what follows a handler is not worth less than the handler's work.
    enum class AtStop
    {
        give_up,
        finish
    };

    // Throws UsageError if `conninfo` is not understood.
    // What the server says beside its answers goes to `log`, unless a handler takes it.
    Database(const std::string &conninfo, const std::string &application, const StopFlag &stop,
             const StopBudget &budget, const Log &log);

    // The connection, made if there is none. Throws DatabaseError 08001.
    PGconn *connection();
    // Another number for each connection and each server that begin() meets; never 0.
    std::uint64_t session() const noexcept { return session_; }
    // The same, for a handler, which may leave anything behind.
    PGconn *lend();

    // Runs a statement on the connection, which must be there.
    Result exec(const char *sql, const std::vector<Param> &params = {},
                AtStop at_stop = AtStop::give_up);

    // Begins a transaction that nobody but commit() can commit, if the server's library knows
    // outbox.refuse_commit (0.2.1).
    void begin();
    // Whether it does, for the transaction that is open.
    bool guarded() const noexcept { return guarded_; }
    // The transaction's number; empty on a standby.
    const std::string &transaction() const noexcept { return transaction_; }
    // Whether the transaction that is open is the one that begin() began. For a connection that is
    // not lost and has no statement running.
    bool still_open();
    // Whether the transaction of this number was committed, or is prepared to be. A server that has
    // crashed gives numbers once more, so ask only where there is another sign of it.
    bool was_committed(const std::string &transaction);
    bool is_prepared(const std::string &transaction);
    // Whether a handler may have committed, or prepared, the transaction that begin() began.
    bool may_be_committed() const noexcept;
    // Takes back what a handler has set in libpq: notice processors, tracing, verbosity, modes.
    void take_back() noexcept;

    // What keeps the next handler in the same transaction apart from the one before: nothing but
    // the reset of the session, or a savepoint also.
    enum class Apart
    {
        reset,
        savepoint
    };
    // Before a handler: resets what others have set in the session. Throws DatabaseError, also if a
    // handler has ended the savepoint of ours that it began with. False, with `why`, if there is
    // something that cannot be reset.
    bool set_apart(Apart how, bool first, std::string *why);

    // Waits for the outcome even when `stop` is raised, but then no longer than 10 s: Stopped.
    // Throws DatabaseError; if that tells of a lost connection, or after Stopped, the transaction
    // may have been committed all the same. What a handler has set in the session is reset, and so
    // are its channels, cursors and advisory locks.
    void commit();
    // Ends the transaction, at worst with its connection: if the server does not answer
    // within 5 s, or 1 s after a stop.
    void rollback() noexcept;
    // Closes the connection.
    void drop() noexcept;

    bool lost() const noexcept;
    // Whether the handler has finished the connection that it was lent.
    bool finished() const noexcept { return !connection_; }
    // The same, after a look at what has come from the server, while nothing is asked of it.
    bool lost_while_idle() const noexcept;
    // What was seen on the connection since begin().
    const SeenStatements &seen() const noexcept { return seen_; }
    // Of the transaction on the connection.
    PGTransactionStatusType state() const noexcept;

private:
    // How COMMIT and what was sent with it went.
    struct Ending
    {
        bool committed = false;
        bool rolled_back = false;
        bool reset = true; // the session is as it was
        Result error;      // of what came before the commit, or of that
    };

    static int on_event(PGEventId event, void *info, void *self);
    static void on_notice(void *self, const char *text);
    void cancel() noexcept;
    void connect();
    void wait(short events, AtStop at_stop);
    void send(const char *sql, const std::vector<Param> &params, AtStop at_stop);
    Result next_result(AtStop at_stop);
    void start_transaction(bool with_guard);
    Ending end_transaction();
    bool run_briefly(const std::string &sql);
    std::string reset_session() const;
    std::string enter_handler(Apart how, const std::string &reset);
    void restore_what_a_pooler_changed();
    void back_in_order() noexcept;

    Connector connector_;
    const StopFlag &stop_;
    const StopBudget &budget_;
    const Log &log_;
    Connection connection_;

    bool knows_guard_ = true; // of this connection: the setting's name is not refused
    bool guarded_ = false;
    bool lent_ = false;  // since the session was last reset
    bool fully_ = false; // since begin(): handlers leave more than what is quickly reset
    SeenStatements seen_;
    std::string transaction_;
    std::vector<std::string> reported_; // by the server, before it was lent
    std::string restore_;               // statements that follow RESET ALL behind a pooler
    PQnoticeReceiver notice_receiver_ = nullptr;
    std::string server_; // of this connection, when it was started
    std::uint64_t session_ = 0;
};

} // namespace outbox::v0::detail
