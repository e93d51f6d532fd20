// What an event costs the transaction that emits it, in the server: time and WAL.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/support/meter.h"
#include "bench/support/samples.h"
#include "bench/support/servers.h"

namespace outbox::bench
{

// The ways to write an event.
enum class Writer
{
    kNothing, // a statement with the same parameters or source rows, that writes nothing
    kBare,    // INSERT of ready values into a table like outbox.events_0 with the same indexes
    kEmit,    // outbox.emit()
    kEvents   // INSERT of four columns into outbox.events, completed by its trigger
};
constexpr Writer kWriters[] = {Writer::kNothing, Writer::kBare, Writer::kEmit, Writer::kEvents};
const char *name_of(Writer writer);

// One entry for each round.
struct WriteCosts
{
    std::map<Writer, std::vector<WriteCost>> rounds;
};

struct WriteCostResult
{
    int events = 0;
    WriteCosts single; // a prepared statement for each event
    WriteCosts set;    // one statement for all of them
};

WriteCostResult measure_write_cost(Servers &servers, int events, int rounds);

nlohmann::ordered_json to_json(const WriteCostResult &result);

} // namespace outbox::bench
