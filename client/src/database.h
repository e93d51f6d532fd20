// The consumer's own connection to PostgreSQL.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <libpq-events.h>
#include <libpq-fe.h>

#include "connect.h"
#include "sql.h"
#include "stop_flag.h"

namespace outbox::v0::detail
{

// Connects when it is first needed and whenever the last connection is gone. Waits of its own
// statements end with Stopped when `stop` is raised; the connection is gone then, and with it
// whatever its transaction held.
class Database
{
public:
    // Whether a stop ends the wait for a statement at once, or only when it takes 10 s longer: what
    // follows a handler is not worth less than the handler's work.
    enum class AtStop
    {
        give_up,
        finish
    };

    // Throws UsageError if `conninfo` is not understood.
    Database(const std::string &conninfo, const std::string &application, const StopFlag &stop);

    // The connection, made if there is none. Throws DatabaseError 08001.
    PGconn *connection();
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
    // Whether the transaction of this number was committed, or prepared to be.
    bool was_committed(const std::string &transaction);
    // Takes back what a handler has set in libpq: notice processors, tracing, verbosity, modes.
    void take_back() noexcept;

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
    // The SQLSTATE of the last error that the connection has met; empty if there was none.
    const std::string &last_error() const noexcept { return last_error_; }
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

    // How much longer a stop waits for an answer that decides about the handler's work.
    static constexpr auto kGrace = std::chrono::seconds(10);

    static int on_event(PGEventId event, void *info, void *self);
    void cancel() noexcept;
    void connect();
    Result next_result(AtStop at_stop);
    void start_transaction(bool with_guard);
    Ending end_transaction();
    bool run_briefly(const std::string &sql);
    std::string reset_session() const;
    void restore_what_a_pooler_changed();
    void back_in_order() noexcept;

    Connector connector_;
    const StopFlag &stop_;
    Connection connection_;

    bool knows_guard_ = true; // of this connection: the setting's name is not refused
    bool guarded_ = false;
    bool lent_ = false;     // since the session was last reset
    bool boundary_ = false; // since begin(): a transaction may have begun or ended
    std::string transaction_;
    std::string last_error_;
    std::vector<std::string> reported_; // by the server, before it was lent
    std::string restore_;               // statements that follow RESET ALL behind a pooler
    PQnoticeReceiver notice_receiver_ = nullptr;
    PQnoticeProcessor notice_processor_ = nullptr;
};

} // namespace outbox::v0::detail
