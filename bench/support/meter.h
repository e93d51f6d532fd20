// What an event costs the server, between two points in time.
#pragma once

#include <chrono>
#include <string>

#include <fmt/format.h>

#include "pipeline.h"
#include "process_usage.h"

namespace outbox::bench
{

// For one event. Full page images are left out: how many there are depends on the last checkpoint.
struct WriteCost
{
    double microseconds = 0;
    double cpu_microseconds = 0; // of the backend
    double wal_bytes = 0;
};

// What happened to the server and the backend between construction and cost_of(). The session has a
// transaction open. Needs the extension pg_walinspect.
class Meter
{
public:
    explicit Meter(Pipeline &session)
        : session_(session), lsn_(lsn()), cpu_(cpu()), began_(Clock::now())
    {
    }

    // Commits something, because only flushed WAL can be looked at.
    WriteCost cost_of(int events)
    {
        const std::chrono::duration<double, std::micro> took = Clock::now() - began_;
        const double cpu_took = cpu() - cpu_;
        const std::string end = lsn();
        session_.exec("select pg_logical_emit_message(true, 'bench', '')");
        session_.exec("commit");
        constexpr double kMicroseconds = 1e6;
        return {took.count() / events, cpu_took * kMicroseconds / events, wal_bytes(end) / events};
    }

private:
    using Clock = std::chrono::steady_clock;

    std::string lsn() { return session_.exec("select pg_current_wal_insert_lsn()"); }
    double wal_bytes(const std::string &end)
    {
        if (end == lsn_) // no WAL, for which the function would raise an error
            return 0;
        return std::stod(session_.exec(
            fmt::format("select sum(record_size) from pg_get_wal_stats('{}', '{}')", lsn_, end)));
    }
    double cpu() const { return main_thread_cpu_seconds(session_.backend_pid()); }

    Pipeline &session_;
    std::string lsn_;
    double cpu_;
    Clock::time_point began_;
};

} // namespace outbox::bench
