// The tables of replays, as the engine asks for them: statements, no decisions.
#pragma once

#include "bgworker/engine/replays.h"

#include "pg_source.h"

namespace outbox
{

// Each method is a border: errors of PostgreSQL leave it as DatabaseError, see guard.h.
class PgReplays final : public Replays
{
public:
    explicit PgReplays(PgSource &source) noexcept : source_(source) {}

    Found look_at(const ReplayRequest &request) override;
    Taken take(ReplayRequest &request) override;
    bool save(const ReplayRequest &request, const char *ended) override;

    bool begin() override { return source_.begin_replay(); }
    void end() override { source_.end_replay(); }
    void read_chunk(const ReplayRequest &request, std::int64_t chunk,
                    std::vector<EventNumbers> &places) override;

private:
    PgSource &source_;
};

} // namespace outbox
