// The engine's view of the replays that operators have asked for.
#pragma once

#include "relay_store.h"

#include "bgworker/engine/record.h"
#include "bgworker/engine/replays.h"

#include <functional>

namespace outbox::sim
{

// One relay's.
class SimReplays final : public Replays
{
public:
    SimReplays(Trace &trace, Database &database, RelayStore &store)
        : trace_(trace), database_(database), store_(store)
    {
    }

    Found look_at(const ReplayRequest &request) override;
    Taken take(ReplayRequest &request) override;
    bool save(const ReplayRequest &request, const char *ended) override;
    bool begin() override;
    void end() override;
    void read_chunk(const ReplayRequest &request, std::int64_t chunk,
                    std::vector<EventNumbers> &places) override;

private:
    const ReplayRow *row_of(const ReplayRequest &request) const;
    void change(int number, const std::function<void(ReplayRow &)> &change);

    Trace &trace_;
    Database &database_;
    RelayStore &store_;
};

// Which replay a record is of, by its header; 0: of none.
int replay_of(const Record &record) noexcept;

} // namespace outbox::sim
