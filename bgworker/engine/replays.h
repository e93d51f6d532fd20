// What the engine asks of the tables of replays. No decisions; see source.h for how calls fail.
#pragma once

#include "event.h"

#include <cstddef>
#include <vector>

namespace outbox
{

// How many of its events are through, from the first on without a gap, and in which way.
struct ReplayCounts
{
    std::int64_t published = 0;
    std::int64_t refused = 0;
    std::int64_t missing = 0; // not there any more
    std::int64_t total() const noexcept { return published + refused + missing; }
};

struct ReplayRequest
{
    static constexpr std::size_t kErrorSize = 512;
    static constexpr std::size_t kTopicSize = 256;

    std::array<unsigned char, 16> id;
    char id_text[37];
    std::int64_t total;
    ReplayCounts counts;
    int rate_per_second;
    char topic[kTopicSize]; // empty: where each event goes
    char last_error[kErrorSize];
    bool begun;
};

class Replays
{
public:
    static constexpr std::int64_t kChunk = 1000; // events in a row of the list

    enum class Taken
    {
        none,
        held,   // a person holds its row
        locked, // a table is locked by a session
        gone,   // the tables are not there
        taken
    };
    enum class Found
    {
        running,
        cancelled,
        locked, // it is not known
    };

    virtual ~Replays() = default;

    // These have transactions of their own.
    // Whether it has not been cancelled.
    virtual Found look_at(const ReplayRequest &request) = 0;
    // The replay that is next, or was under way; it is RUNNING from then on. Those that were asked
    // for in the database that this one is a copy of are ended first.
    virtual Taken take(ReplayRequest &request) = 0;
    // Writes how far it is, and the state in which it has ended unless that is null. False when a
    // person holds its row, it was cancelled, or a table is locked.
    virtual bool save(const ReplayRequest &request, const char *ended) = 0;

    // A step of a replay's: also Source::find(), read_line() and build() may be called in it.
    // False: a table is locked; nothing is open.
    virtual bool begin() = 0;
    virtual void end() = 0;
    // Reads a row of the list; none when it is not there. In a step of the replay's.
    virtual void read_chunk(const ReplayRequest &request, std::int64_t chunk,
                            std::vector<EventNumbers> &places) = 0;
};

} // namespace outbox
