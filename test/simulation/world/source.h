// The engine's view of the simulated database.
#pragma once

#include "relay_store.h"

#include "bgworker/engine/deliveries.h"
#include "bgworker/engine/source.h"

#include <optional>
#include <string>
#include <vector>

namespace outbox::sim
{

// One relay's: made anew with each process.
class SimSource final : public Source, public Deliveries
{
public:
    SimSource(SimClock &clock, Trace &trace, Database &database, RelayStore &store);

    // --- Source ---
    Opened begin() override;
    void end() override;
    int roll_back(const char *what, int logged) noexcept override;
    bool must_end() const noexcept override { return must_end_; }
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
    void tick(const XidSnapshot &snapshot) override;
    bool is_waited_for() const noexcept override { return false; }
    std::uint64_t emitted() const noexcept override { return database_.committed_events(); }
    void show_backlog(std::uint64_t base, bool counted) noexcept override;
    bool routes_changed() const noexcept override;
    RoutesRead load_routes() override;
    bool has_routes() const noexcept override { return loaded_version_ != 0; }
    void log(const LogLine &line) noexcept override;

    // --- Deliveries ---
    void add_waiting(const Event &event, Lane lane) override;
    Written add_refused(const Event &event, Lane lane, const RefusalNote &note) override;
    void due(Time now, const std::vector<std::int64_t> &left_out,
             const std::vector<Lane> &lanes_left_out, int count,
             std::vector<DeliveryRow> &rows) override;
    Time next_due_at(const std::vector<std::int64_t> &left_out,
                     const std::vector<Lane> &lanes_left_out) override;
    bool first_before(Lane lane, std::int64_t seq, const std::vector<std::int64_t> &left_out,
                      DeliveryRow &row) override;
    void waiting_of(Lane lane, std::int64_t after, const std::vector<std::int64_t> &left_out,
                    int count, std::vector<DeliveryRow> &rows) override;
    void make_heads_due(std::string_view topic, Time now) override;
    std::int64_t last_seq() override;
    bool has_row(const Event &event) override;
    bool has_behind(Lane lane, std::int64_t seq) override;
    void blocked_lanes(std::vector<Lane> &lanes) override;
    bool is_lane_blocked(Lane lane) override;
    void waiting_lanes(std::vector<Lane> &lanes) override;
    bool move_to_lane(std::int64_t seq, Lane lane) override;
    bool rename_lane(std::int64_t seq, Lane lane) override;
    void rows_behind(std::int64_t after, int count, std::vector<MovedRow> &rows) override;
    void rows_of_key(std::string_view key, std::int64_t after, int count,
                     std::vector<MovedRow> &rows) override;
    bool move_to_topic(std::int64_t seq, std::string_view topic, Lane lane) override;
    std::size_t remove_delivered(std::vector<std::int64_t> &seqs) override;
    void count_published(std::size_t count) override;
    bool is_paused() override;

    // For who runs the relay.
    void ask_to_end() noexcept { must_end_ = true; }
    const StoredBacklog &backlog() const noexcept { return backlog_; }
    // Whether a position or a row was written since; true once.
    bool take_written() noexcept;
    std::size_t built() const noexcept { return built_; }
    // How often the position was written.
    std::size_t saves() const noexcept { return saves_; }
    // The last tick that was written since, or was to be; true once.
    bool take_tick(XidSnapshot &tick) noexcept;

private:
    bool set_event(const EventRow *row, Event &event);
    Delivery make_row(const Event &event, Lane lane) const;
    void moved_rows(std::int64_t after, const std::string_view *key, int count,
                    std::vector<MovedRow> &rows);

    SimClock &clock_;
    Trace &trace_;
    Database &database_;
    RelayStore &store_;
    const FilterHistory filters_; // as it was when the process started
    std::uint64_t skipped_ = 0;
    std::size_t built_ = 0;             // records
    const EventRow *current_ = nullptr; // fetched or found last
    std::string topic_;
    std::string key_;
    struct
    {
        int event;
        int bytes;
        bool invalid;
    } value_ = {};
    std::vector<std::string> topics_; // as they were loaded last
    std::vector<bool> blocks_;
    std::uint64_t loaded_version_ = 0;
    Lsn needed_on_standby_;
    StoredBacklog backlog_;
    bool must_end_ = false;
    bool written_ = false;
    std::size_t saves_ = 0;
    std::optional<XidSnapshot> tick_;
};

} // namespace outbox::sim
