// The events that every contender writes: the same keys and values in the same order.
#pragma once

#include <string>
#include <vector>

#include "support/pg.h"

namespace outbox::bench
{

constexpr size_t kKeys = 10000;
constexpr size_t kPayloadBytes = 250;
constexpr const char *kEventType = "order.placed";

struct Input
{
    std::string key;
    std::string payload; // JSON as jsonb prints it
};

// One input for each key, different from run to run in nothing.
const std::vector<Input> &inputs();

// Makes the table bench_inputs (n from 0, key, payload) and checks that the database will print the
// payloads exactly as inputs() has them.
void load_inputs(test::Db &db);

} // namespace outbox::bench
