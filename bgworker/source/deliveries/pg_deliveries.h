// The table outbox.deliveries, as the engine asks for it: statements, no decisions.
#pragma once

#include "bgworker/engine/deliveries.h"

#include "extension/server/pg.h"

namespace outbox
{

// Each method is a border: errors of PostgreSQL leave it as DatabaseError, see guard.h.
class PgDeliveries final : public Deliveries
{
public:
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
    // What the destination said when it asked never to be called again, if is_paused() has found
    // that once; empty: it has not. Then it is paused for this process, which may have options of
    // before: when the row is gone another one is to start.
    const char *gone() const noexcept { return gone_; }
    bool may_start_again() const noexcept { return may_start_again_; }

private:
    char gone_[512] = "";
    bool may_start_again_ = false;
};

} // namespace outbox
