// The database of this process, as the engine asks for it.
#pragma once

#include "bgworker/engine/source.h"
#include "extension/core/routes.h"

#include "bgworker/source/events/event_reader.h"
#include "bgworker/source/records/event_record.h"
#include "bgworker/source/records/routing.h"

#include "extension/shared/shared_state.h"

namespace outbox
{

// One for the process. Each method is a border: errors of PostgreSQL leave it as DatabaseError, see
// guard.h.
class PgSource final : public Source
{
public:
    // The places in shared memory of the database, and of the relay.
    PgSource(DatabaseSlot *slot, RelayEntry *relay) noexcept : slot_(slot), relay_(relay) {}

    Opened begin() override;
    void end() override;
    int roll_back(const char *what, int logged) override;
    bool must_end() const noexcept override;

    void take_snapshot(XidSnapshot &snapshot) override;
    bool scan(WindowKeys &keys) override;
    bool is_safe_on_standbys() override;

    bool fetch(const EventKey &key, Event &event) override;
    std::uint64_t skipped() const noexcept override { return skipped_; }
    bool find(const EventNumbers &numbers, Event &event) override;
    bool read_line(Event &event, Failure &why) override;
    bool build(Event &event, Record &record, Failure &why) override;
    void note_removed(const EventNumbers &numbers) noexcept override;

    SaveResult save(const Position &position, std::int64_t published_total) override;
    bool is_waited_for() const noexcept override;
    void tick(const XidSnapshot &snapshot) override;

    std::uint64_t emitted() const noexcept override;
    void show_backlog(std::uint64_t base, bool counted) noexcept override;

    bool routes_changed() const noexcept override;
    RoutesRead load_routes() override;
    bool has_routes() const noexcept override;
    // Whether begin() was refused for what a restore has brought: what was committed after that
    // must not go out before it.
    bool is_held() const noexcept { return held_since_ != 0; }
    // What is wrong with outbox.routes; empty: nothing.
    const char *routes_problem() const noexcept { return routes_problem_; }

    void log(const LogLine &line) noexcept override;

    // As begin(), for a replay: with its tables, and without those of new events.
    bool begin_replay();
    void end_replay();

private:
    OpenResult open();
    bool awaits_look() noexcept;
    void enter_step();
    void leave_step();
    void set_event(Event &event) const noexcept;
    void set_line(Event &event) const noexcept;
    void report_routes(RoutesLoaded loaded, const Verdict &verdict);

    DatabaseSlot *const slot_;
    RelayEntry *const relay_;
    EventTables tables_ = {};
    MemoryContext event_context_ = nullptr; // reset for each event
    TimestampTz now_ = 0;                   // of the step
    EventRow row_ = {};                     // that was read last
    EventLine line_ = {};
    std::uint64_t skipped_ = 0;
    bool ask_standbys_ = true; // how far they must be is not known yet
    XLogRecPtr on_standbys_ = InvalidXLogRecPtr;
    std::int64_t held_since_ = 0;   // by the steady clock; 0: is not
    std::uint32_t not_awaited_ = 0; // of DatabaseSlot::restores: the relay has not looked in time
    char routes_problem_[512] = "";
};

} // namespace outbox
