// A consumer in a process of its own, to be killed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "support/process.h"

namespace outbox::test
{

// What such a process is told on its command line.
struct ConsumerProcessOptions
{
    std::string conninfo;
    std::string bootstrap;
    std::string group;
    std::string topic;
    bool own_offsets = false;
    int batch = 1;
};

// The effect of an event {"amount": n}: a row in effects, and n added to its key's row in totals.
constexpr const char *kEffectTables =
    "create table effects (event_id uuid, key text, amount bigint);"
    "create table totals (key text primary key, amount bigint not null default 0)";

// Runs one until SIGTERM.
int consume(const std::vector<std::string> &arguments);

std::unique_ptr<Process> start_consumer(const ConsumerProcessOptions &options);

} // namespace outbox::test
