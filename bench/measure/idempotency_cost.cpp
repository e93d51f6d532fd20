#include "idempotency_cost.h"

#include <iostream>

#include <fmt/format.h>

#include "bench/support/pipeline.h"

namespace outbox::bench
{

namespace
{

constexpr int kWarmUpBatches = 2; // the backend's caches
constexpr const char *kConsumer = "billing";

const char *
name_of(Marker marker)
{
    switch (marker)
    {
    case Marker::kBare:
        return "bare";
    case Marker::kMark:
        return "mark";
    case Marker::kCalls:
        return "calls";
    case Marker::kMany:
        break;
    }
    return "many";
}

const char *
statement(Marker marker)
{
    switch (marker)
    {
    case Marker::kBare:
        return "insert into bench_processed (consumer, event_id) values ($1, $2) "
               "on conflict do nothing";
    case Marker::kMark:
    case Marker::kCalls:
        return "select outbox.mark_processed($2, $1)";
    case Marker::kMany:
        break;
    }
    return "select outbox.mark_processed_many($2, $1)";
}

// Increasing, as the ids of emit() are; `space` keeps those of different markers apart.
std::string
id_bytes(int space, int number)
{
    return binary_param(int64_t{0x0190000000007000} + (int64_t{space} << 32)).bytes +
           binary_param(static_cast<int64_t>(number)).bytes;
}

std::string
int32_bytes(int value)
{
    return binary_param(static_cast<int64_t>(value)).bytes.substr(4);
}

// An array as it goes over the wire.
WireParam
ids_param(int space, int first, int count)
{
    constexpr int kUuidOid = 2950;
    std::string bytes = int32_bytes(1) + int32_bytes(0) + int32_bytes(kUuidOid) +
                        int32_bytes(count) + int32_bytes(1);
    for (int i = first; i < first + count; i++)
        bytes += int32_bytes(16) + id_bytes(space, i);
    return {bytes, true};
}

void
mark_batches(Pipeline &session, Marker marker, int first_batch, int batches)
{
    const int space = static_cast<int>(marker);
    const int first = first_batch * kBatchEvents;
    const int events = batches * kBatchEvents;
    const auto params_of = [&](int number) -> std::vector<WireParam> {
        return {text_param(kConsumer), {id_bytes(space, first + number), true}};
    };
    if (marker == Marker::kBare || marker == Marker::kMark)
        session.run(events, params_of);
    else if (marker == Marker::kCalls)
        for (int i = 0; i < events; i++)
            session.call(params_of(i));
    else
        for (int i = 0; i < batches; i++)
            session.call(
                {text_param(kConsumer), ids_param(space, first + i * kBatchEvents, kBatchEvents)});
}

WriteCost
measure(const Database &database, Marker marker, int batches)
{
    database.connect().exec("checkpoint");
    Pipeline session(database.conninfo());
    session.prepare(statement(marker), 2);
    session.exec("begin");
    mark_batches(session, marker, 0, kWarmUpBatches);
    Meter meter(session);
    mark_batches(session, marker, kWarmUpBatches, batches);
    return meter.cost_of(batches * kBatchEvents);
}

void
show_progress(const IdempotencyCostResult &result)
{
    for (const Marker marker : kMarkers)
    {
        const WriteCost &last = result.rounds.at(marker).back();
        std::cerr << fmt::format("  {:<8} {:6.2f} us  CPU {:6.2f} us  WAL {:6.1f} bytes\n",
                                 name_of(marker), last.microseconds, last.cpu_microseconds,
                                 last.wal_bytes);
    }
}

} // namespace

IdempotencyCostResult
measure_idempotency_cost(Servers &servers, int events, int rounds)
{
    std::cerr << "cost of marking events as processed ...\n";
    IdempotencyCostResult result;
    const int batches = (events + kBatchEvents - 1) / kBatchEvents;
    result.events = batches * kBatchEvents;
    for (int round = 0; round < rounds; round++)
    {
        const Database database(servers, fmt::format("idempotency_{}", round));
        test::Db db = database.connect();
        db.exec("create extension pg_walinspect");
        db.exec("create table bench_processed (like outbox.processed_events including all)");
        // Each round begins with another one.
        for (size_t i = 0; i < std::size(kMarkers); i++)
        {
            const Marker marker = kMarkers[(i + static_cast<size_t>(round)) % std::size(kMarkers)];
            result.rounds[marker].push_back(measure(database, marker, batches));
        }
        show_progress(result);
    }
    return result;
}

nlohmann::ordered_json
to_json(const IdempotencyCostResult &result)
{
    nlohmann::ordered_json all = {{"events", result.events}};
    for (const auto &[marker, rounds] : result.rounds)
        for (const WriteCost &cost : rounds)
            all[name_of(marker)].push_back({{"microseconds", cost.microseconds},
                                            {"cpu_microseconds", cost.cpu_microseconds},
                                            {"wal_bytes", cost.wal_bytes}});
    return all;
}

} // namespace outbox::bench
