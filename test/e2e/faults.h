#pragma once

#include <chrono>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "servers.h"

namespace outbox::test
{

// Retries quickly, so that tests do not wait for the backoff. Processes die here, no machine does:
// without fsync a crash takes the same from the server, and recovery does not wait for the disk.
inline const Settings kFaultSettings = {
    {"outbox.backoff_initial", "100ms"}, {"outbox.backoff_max", "500ms"}, {"fsync", "off"}};

// Processes of the server that can die.
enum class Victim
{
    kRelay,
    kBackend,
    kPostmaster,
    kEverything // an immediate stop: the crash of a machine, as far as PostgreSQL can tell
};

// Kills it, and in the last two cases starts the server again. Waits for nothing else.
void strike(Victim victim, PgCluster &server, const TestDatabase &database);

// How often a fault that strikes at random instants is repeated; OUTBOX_TEST_ROUNDS wins.
int fault_rounds(int rounds);

// Rounds of a fault under load, seen by a consumer that reads all the time: how soon new events
// arrive again, and how many old ones once more.
class FaultRounds
{
public:
    FaultRounds(std::string fault, Consumer &consumer, unsigned seed);

    // Reads until a random instant within this time from now: where the next blow falls.
    void read_for_random(Milliseconds at_most);

    // Strikes, does what comes after, and reads on until an event that was emitted after the blow
    // arrives. Fails the test when none does.
    template <class Strike> void round(Strike &&strike)
    {
        round(strike, [] {});
    }
    template <class Strike, class Aftermath> void round(Strike &&strike, Aftermath &&aftermath)
    {
        begin();
        strike();
        struck();
        aftermath();
        wait_recovered();
    }

    // A number from 0 to count - 1.
    int choose(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }

    // Judges everything at the end. The table of events is the truth; duplicates are bounded by
    // what had arrived in the last second before each blow. Prints the figures in one line.
    void judge(const Report &report);

private:
    using WallClock = std::chrono::system_clock;

    void begin();
    void struck();
    void wait_recovered();
    size_t take_new_records();
    size_t received_since(WallClock::time_point start) const;

    std::string fault_;
    Consumer &consumer_;
    std::mt19937 random_;
    std::unordered_set<std::string> seen_;
    size_t looked_at_ = 0;
    size_t late_duplicates_ = 0;
    WallClock::time_point began_;
    int64_t struck_ms_ = 0;
    std::vector<size_t> duplicates_; // of each round
    size_t allowed_ = 0;
    std::vector<Milliseconds> recoveries_;
};

// One line of figures, as docs/reliability.md keeps them.
void print_figures(const std::string &fault, int rounds, const Report &report,
                   const std::vector<size_t> &duplicates = {},
                   const std::vector<Milliseconds> &recoveries = {});

} // namespace outbox::test
