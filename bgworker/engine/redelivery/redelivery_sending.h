// How what waits in outbox.deliveries goes out: due events alone, lines in their order and in turn.
#pragma once

#include "culprits.h"
#include "flights.h"
#include "left_rows.h"
#include "line_gate.h"
#include "redelivery_sink.h"
#include "results.h"

#include <vector>

namespace outbox
{

// What is due is tried alone in its partition; a line that nothing blocks goes out in groups, all
// lines in turn.
class RedeliverySending
{
public:
    RedeliverySending(const World &world, Lines &lines, Agenda &agenda, RedeliverySink &sink,
                      Flights &flights, Results &results, const Culprits &culprits,
                      const LeftRows &left) noexcept
        : source_(world.source), deliveries_(world.deliveries), clock_(world.clock),
          tally_(world.tally), lines_(lines), agenda_(agenda), sink_(sink), flights_(flights),
          results_(results), culprits_(culprits), left_(left)
    {
    }

    // All in a step. Whether there is anything to send.
    bool has_work(const Moment &now) const noexcept
    {
        return agenda_.is_due(now) || lines_.releasing() > 0;
    }
    // Needs an open sink. All before the stream's `first_tag` is acknowledged. Returns true when
    // there may be more to hand over at once.
    bool send(std::uint64_t first_tag, const Moment &now);
    // It cannot be sent now: again in a moment.
    void put_off(const Moment &now) noexcept;
    // When the next event is due.
    void find_due(std::uint64_t first_tag);

private:
    enum class Sent
    {
        sent,
        moved,   // to another lane
        gone,    // with its row in the ring
        refused, // before it was queued
        later
    };

    // Rows that persons hold are still published, and so count.
    std::size_t room() const noexcept;
    std::vector<std::int64_t> left_out(const Lane *lane) const;
    std::vector<Lane> unready_lanes(std::uint64_t first_tag);

    bool try_due(std::uint64_t first_tag, const Moment &now);
    void read_due(std::uint64_t first_tag, const Moment &now);
    Sent try_one(const DeliveryRow &due);

    bool release_lines(std::uint64_t first_tag, Steady now);
    bool release(Lane lane, Steady now, Steady begun);
    bool finish(Lane lane, Line &line, Steady now);

    Sent send_one(const DeliveryRow &row, bool attempt);
    ProduceResult offer(const Event &event, Record *record, const LineGate &gate, Failure &why,
                        bool &no_leader);
    Sent join_narrower(const DeliveryRow &row, Lane lane);
    Sent refuse(const DeliveryRow &row, const Failure &why, Lane partition);
    void begin_flight(const DeliveryRow &row, const Event &event, const Record &record,
                      const LineGate &gate, bool attempt);

    Source &source_;
    Deliveries &deliveries_;
    Clock &clock_;
    Tally &tally_;
    Lines &lines_;
    Agenda &agenda_;
    RedeliverySink &sink_;
    Flights &flights_;
    Results &results_;
    const Culprits &culprits_;
    const LeftRows &left_;
    std::vector<Lane> turns_;       // lines that are still to have theirs, the last one first
    std::vector<DeliveryRow> rows_; // of the call under way
};

} // namespace outbox
