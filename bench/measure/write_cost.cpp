#include "write_cost.h"

#include <iostream>

#include <fmt/format.h>

#include "bench/support/inputs.h"
#include "bench/support/pipeline.h"

namespace outbox::bench
{

namespace
{

constexpr int kWarmUp = 500; // events; the backend's caches

// The bare INSERT gets the values that the server makes for an event ready made, and those in
// binary, so that it does not pay for reading them as text.
struct Statements
{
    std::string single;
    int params;
    std::string set; // reads bench_rows
};

Statements
statements(Writer writer)
{
    const std::string bare = "(seq, xid, created_at, id, slot, aggregate_type, aggregate_id, "
                             "event_type, payload)";
    const std::string plain = "(aggregate_type, aggregate_id, event_type, payload)";
    switch (writer)
    {
    case Writer::kNothing:
        return {"select num_nulls($1::text, $2::text, $3::text, $4::jsonb)", 4,
                "select count(aggregate_type), count(payload) from bench_rows"};
    case Writer::kBare:
        return {"insert into bench_bare " + bare + " values ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                9,
                "insert into bench_bare " + bare +
                    " select seq, xid, created_at, id, slot, aggregate_type, aggregate_id, "
                    "event_type, payload from bench_rows"};
    case Writer::kEmit:
        return {"select outbox.emit($1, $2, $3, $4)", 4,
                "select count(outbox.emit(aggregate_type, aggregate_id, event_type, payload)) "
                "from bench_rows"};
    case Writer::kEvents:
        break;
    }
    return {"insert into outbox.events " + plain + " values ($1, $2, $3, $4)", 4,
            "insert into outbox.events " + plain +
                " select aggregate_type, aggregate_id, event_type, payload from bench_rows"};
}

WireParam
uuid_param(int number)
{
    // Increasing, as the ids of emit() are.
    WireParam id = binary_param(int64_t{0x0190000000007000});
    id.bytes += binary_param(static_cast<int64_t>(number)).bytes;
    return id;
}

std::vector<WireParam>
params_of(Writer writer, const std::string &type, int64_t xid, int number)
{
    const Input &input = inputs()[static_cast<size_t>(number) % inputs().size()];
    std::vector<WireParam> params = {text_param(type), text_param(input.key),
                                     text_param(kEventType), text_param(input.payload)};
    if (writer == Writer::kBare)
        params.insert(params.begin(), {binary_param(static_cast<int64_t>(number)),
                                       binary_param(xid), binary_param(int64_t{823856700000000}),
                                       uuid_param(number), binary_param(int16_t{0})});
    return params;
}

WriteCost
measure_single(const Database &database, Writer writer, int events)
{
    database.connect().exec("checkpoint");
    Pipeline session(database.conninfo());
    const Statements sql = statements(writer);
    session.prepare(sql.single, sql.params);
    session.exec("begin");
    const int64_t xid = std::stoll(session.exec("select pg_current_xact_id()"));
    const auto make = [&](int number) { return params_of(writer, database.type(), xid, number); };
    session.run(kWarmUp, make);
    Meter meter(session);
    session.run(events, make);
    return meter.cost_of(events);
}

WriteCost
measure_set(const Database &database, Writer writer, int events)
{
    database.connect().exec("checkpoint");
    Pipeline session(database.conninfo());
    const std::string sql = statements(writer).set;
    session.exec("begin");
    session.exec(sql + fmt::format(" where seq < {}", kWarmUp));
    Meter meter(session);
    session.exec(sql);
    return meter.cost_of(events);
}

void
make_tables(const Database &database, int events)
{
    test::Db db = database.connect();
    db.exec("create extension pg_walinspect");
    db.exec("create table bench_bare (like outbox.events_0 including all)");
    db.exec("create table bench_rows as select s::bigint as seq, 1000::bigint as xid, "
            "clock_timestamp() as created_at, outbox.uuid_v7() as id, 0::smallint as slot, "
            "$1::text as aggregate_type, i.key as aggregate_id, $2::text as event_type, i.payload "
            "from generate_series(0, $3::int - 1) s join bench_inputs i on i.n = s % $4::int "
            "order by s",
            database.type(), kEventType, events, kKeys);
    db.exec("vacuum analyze bench_rows");
}

void
show_progress(const char *shape, const WriteCosts &costs)
{
    for (const Writer writer : kWriters)
    {
        const WriteCost &last = costs.rounds.at(writer).back();
        std::cerr << fmt::format("  {:<8} {:<8} {:6.2f} us  CPU {:6.2f} us  WAL {:6.1f} bytes\n",
                                 shape, name_of(writer), last.microseconds, last.cpu_microseconds,
                                 last.wal_bytes);
    }
}

nlohmann::ordered_json
to_json(const WriteCosts &costs)
{
    nlohmann::ordered_json all;
    for (const auto &[writer, rounds] : costs.rounds)
        for (const WriteCost &cost : rounds)
            all[name_of(writer)].push_back({{"microseconds", cost.microseconds},
                                            {"cpu_microseconds", cost.cpu_microseconds},
                                            {"wal_bytes", cost.wal_bytes}});
    return all;
}

} // namespace

const char *
name_of(Writer writer)
{
    switch (writer)
    {
    case Writer::kNothing:
        return "nothing";
    case Writer::kBare:
        return "bare";
    case Writer::kEmit:
        return "emit";
    case Writer::kEvents:
        break;
    }
    return "events";
}

WriteCostResult
measure_write_cost(Servers &servers, int events, int rounds)
{
    std::cerr << "cost of writing ...\n";
    WriteCostResult result;
    result.events = events;
    for (int round = 0; round < rounds; round++)
    {
        const Database database(servers, fmt::format("write_{}", round));
        make_tables(database, events);
        // Each round begins with another one.
        for (size_t i = 0; i < std::size(kWriters); i++)
        {
            const Writer writer = kWriters[(i + static_cast<size_t>(round)) % std::size(kWriters)];
            result.single.rounds[writer].push_back(measure_single(database, writer, events));
            result.set.rounds[writer].push_back(measure_set(database, writer, events));
        }
        show_progress("single", result.single);
        show_progress("set", result.set);
    }
    return result;
}

nlohmann::ordered_json
to_json(const WriteCostResult &result)
{
    return {{"events", result.events},
            {"single", to_json(result.single)},
            {"set", to_json(result.set)}};
}

} // namespace outbox::bench
