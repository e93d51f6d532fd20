// What the engine asks of a database.
//
// Calls fail in one way: they throw DatabaseError. The transaction that they ran in is lost then,
// all that was written in it as well, and nothing but Source::roll_back() may be called next. Most
// of the engine lets the exception pass to whoever runs it, who ends the relay: the next one starts
// from the stored position. What is `noexcept` here asks no database.
//
// A step is one short transaction: begin() to end(). It sees one snapshot, taken after its locks.
// Nothing of a step is kept when the process or the server dies before end() has returned. Even
// after that the server may forget it in a crash, with what was committed since (the relay does not
// wait for the disk), but never only a part of it, nor in another order.
//
// Whatever a call returns by pointer or view belongs to the source, and is valid until the next
// fetch() or find(), or the end of the step.
#pragma once

#include "event.h"
#include "failure.h"
#include "record.h"

#include "bgworker/engine/common/progress.h"
#include "bgworker/engine/common/window_keys.h"

#include <cstdint>
#include <exception>

namespace outbox
{

// The database has refused something. What it said stays with the source.
class DatabaseError : public std::exception
{
public:
    const char *what() const noexcept override { return "the database has refused a statement"; }
};

// A row of outbox.deliveries could not be written, as with a full disk. The step is lost, but
// nothing else is wrong.
class NotWritten final : public DatabaseError
{
};

enum class Opened
{
    opened,
    locked, // a table is locked by a session; nothing is open, try later
    gone    // the extension is not (or no longer) in this database; nothing is open
};

struct StoredPosition
{
    Position position;
    std::int64_t published_total = 0;
};

// What is known of the backlog at the start, see Source::show_backlog().
struct StoredBacklog
{
    std::uint64_t base = 0;
    bool counted = false;
};

enum class SaveResult
{
    done, // or there is nothing to save yet
    gone, // the table's row is not there
    locked
};

enum class RoutesRead
{
    current, // events are read by the routes of now
    locked,  // the table is locked by a session; the previous routes are used
    broken   // a row cannot be used (the source has logged it); the previous routes are used
};

// A line of the log that the engine has to say.
struct LogLine
{
    enum class Level : unsigned char
    {
        debug,
        log,
        warning
    };
    Level level = Level::log;
    bool of_connection = false; // the fault is the destination's: a connection_exception
    const char *text = "";
    const char *detail = ""; // empty: none
    const char *hint = "";   // empty: none
};

class Source
{
public:
    virtual ~Source() = default;

    // Begins a step: locks all that the engine may read or write in it without waiting, then takes
    // a snapshot. Only `opened` needs an end().
    virtual Opened begin() = 0;
    virtual void end() = 0;
    // After a DatabaseError of a call that the engine survives, see Guarded: rolls back,
    // shows the error as the relay's last one after the words `what`, logs it unless its code is
    // `logged`. Returns its code, never 0. May throw as well.
    virtual int roll_back(const char *what, int logged) = 0;
    // The process is asked to end: a long step had better end soon.
    virtual bool must_end() const noexcept = 0;

    // The snapshot of this step: which transactions have ended. Later ones see at least as much.
    virtual void take_snapshot(XidSnapshot &snapshot) = 0;
    // Runs the scan that `keys` needs, see WindowKeys; rows of transactions that rolled back are
    // offered too. All commits met are on this server's disk when it returns true. False: the
    // process is asked to end; the scan is void.
    virtual bool scan(WindowKeys &keys) = 0;
    // Whether all that the last take_snapshot() saw is safe on the synchronous standbys; before the
    // first of the process: all that was visible at its start. Does not wait.
    virtual bool is_safe_on_standbys() = 0;

    // Reads the event of a key. False: there is no such row, as what wrote it was rolled back; or
    // it is not for this subscription; or a person has removed it, which the source logs.
    virtual bool fetch(const EventKey &key, Event &event) = 0;
    // How many it has left out so, as not for this subscription.
    virtual std::uint64_t skipped() const noexcept = 0;
    // The same by numbers; `slot` is only where it is looked for first. Logs nothing.
    virtual bool find(const EventNumbers &numbers, Event &event) = 0;
    // Of the event that was fetched or found last: reads topic and key. False: `why` says what is
    // wrong with the event (class event), whose line is set as far as it could be read.
    virtual bool read_line(Event &event, Failure &why) = 0;
    // The same, and builds its record; `tag` is left 0.
    virtual bool build(Event &event, Record &record, Failure &why) = 0;
    // An event that was set aside is not there any more; the source logs it.
    virtual void note_removed(const EventNumbers &numbers) noexcept = 0;

    // Writes the position, in a transaction of its own. Tells those who wait for it.
    virtual SaveResult save(const Position &position, std::int64_t published_total) = 0;
    // Whether a session waits for the position to be written.
    virtual bool is_waited_for() const noexcept = 0;
    // Notes that everything visible in the snapshot is published by now, in a transaction of its
    // own, if the table is not locked.
    virtual void tick(const XidSnapshot &snapshot) = 0;

    // Events of committed transactions since the server started. Read before a snapshot is taken:
    // each event is then seen by the snapshot, or counted later, or both.
    virtual std::uint64_t emitted() const noexcept = 0;
    // Shows backends how many events wait: emitted() less this. `counted`: those from before the
    // server started are among them.
    virtual void show_backlog(std::uint64_t base, bool counted) noexcept = 0;

    // Whether the routes, or a setting behind them, may be other ones than load_routes() has read.
    // What the snapshot of a step sees was emitted by routes of which this has heard. True at
    // first.
    virtual bool routes_changed() const noexcept = 0;
    virtual RoutesRead load_routes() = 0;
    // False while there is nothing to read events by; what is wrong then, or with the last change,
    // the source shows and logs.
    virtual bool has_routes() const noexcept = 0;

    virtual void log(const LogLine &line) noexcept = 0;
};

} // namespace outbox
