// Runs as many histories as fit into a time, on all cores:
//   simulate SECONDS [SEED]   from this seed on; else from one that the clock gives
//   simulate seed SEED        this one, told in words if it fails, after it was shortened
//   simulate tell SEED        the same in full, whether it fails or not
#include "simulation.h"

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace outbox::sim;

namespace
{

using Steady = std::chrono::steady_clock;

int
tell_one(std::uint64_t seed, bool always)
{
    const History history = make_history(seed);
    const Outcome outcome = simulate(history);
    if (outcome.good() && !always)
    {
        std::printf("seed %llu: nothing is wrong\n", static_cast<unsigned long long>(seed));
        return 0;
    }
    if (always)
    {
        std::printf("%s\n", tell(history).c_str());
        return outcome.good() ? 0 : 1;
    }
    const History shorter = shorten(history, outcome.kind);
    std::printf("seed %llu: %s: %s\n\nShortened from %zu to %zu acts; at most %d events in "
                "flight, %d records a batch, %d attempts, backoff %lld to %lld ms, later events "
                "wait: %d.\n",
                static_cast<unsigned long long>(seed), outcome.kind.c_str(), outcome.text.c_str(),
                history.acts.size(), shorter.acts.size(), shorter.max_events, shorter.batch_records,
                shorter.max_attempts, static_cast<long long>(shorter.backoff_initial_ms),
                static_cast<long long>(shorter.backoff_max_ms), shorter.block ? 1 : 0);
    for (const Act &act : shorter.acts)
        std::printf("%s\n", to_words(act).c_str());
    std::printf("\nWhat came of it:\n%s", tell(shorter).c_str());
    return 1;
}

struct Tally
{
    unsigned long long histories = 0;
    unsigned long long failed = 0;
    unsigned long long seed = 0; // of the first failure
    unsigned long long published = 0;
    unsigned long long repeats = 0;
    double simulated = 0;
};

Tally
run_some(std::uint64_t seed, std::uint64_t step, Steady::time_point until, std::FILE *say)
{
    Tally tally;
    for (; Steady::now() < until; seed += step)
    {
        const Outcome outcome = simulate(make_history(seed));
        tally.histories++;
        tally.published += outcome.published;
        tally.repeats += outcome.repeats;
        tally.simulated += static_cast<double>(outcome.lasted) / kSecond;
        if (outcome.good())
            continue;
        if (tally.failed++ < 20)
            std::fprintf(say, "seed %llu: %s: %s\n", static_cast<unsigned long long>(seed),
                         outcome.kind.c_str(), outcome.text.c_str());
        if (tally.seed == 0)
            tally.seed = seed;
    }
    return tally;
}

int
run_for(int seconds, std::uint64_t seed)
{
    const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
    const auto until = Steady::now() + std::chrono::seconds(seconds);
    std::vector<int> pipes;
    for (unsigned core = 0; core < cores; core++)
    {
        int ends[2];
        if (pipe(ends) != 0)
            return 2;
        const pid_t child = fork();
        if (child < 0)
            return 2;
        if (child == 0)
        {
            const Tally tally = run_some(seed + core, cores, until, stdout);
            std::fflush(stdout);
            const bool told = write(ends[1], &tally, sizeof(tally)) == sizeof(tally);
            std::_Exit(told ? 0 : 2);
        }
        close(ends[1]);
        pipes.push_back(ends[0]);
    }
    Tally sum;
    bool complete = true;
    for (const int end : pipes)
    {
        Tally tally;
        complete = read(end, &tally, sizeof(tally)) == sizeof(tally) && complete;
        sum.histories += tally.histories;
        sum.failed += tally.failed;
        sum.published += tally.published;
        sum.repeats += tally.repeats;
        sum.simulated += tally.simulated;
        if (sum.seed == 0)
            sum.seed = tally.seed;
    }
    while (wait(nullptr) > 0)
        ;
    std::printf("%llu histories from seed %llu on, %llu failed; %.0f an hour on %u cores; %llu "
                "events published, %llu repeats, %.1f simulated hours\n",
                sum.histories, static_cast<unsigned long long>(seed), sum.failed,
                static_cast<double>(sum.histories) / seconds * 3600, cores, sum.published,
                sum.repeats, sum.simulated / 3600);
    if (!complete)
        std::printf("a process has died\n");
    if (sum.failed > 0)
        return tell_one(sum.seed, false);
    return complete ? 0 : 1;
}

} // namespace

int
main(int count, char **words)
{
    (void) std::setvbuf(stdout, nullptr, _IOLBF, 0); // into a file too, as it may be ended
    const std::string_view first = count > 1 ? words[1] : "";
    std::uint64_t numbers[2] = {};
    const bool one = first == "seed" || first == "tell";
    bool understood = one ? count == 3 : count == 2 || count == 3;
    for (int i = one ? 2 : 1; understood && i < count; i++)
    {
        const char *end = words[i] + std::strlen(words[i]);
        const auto read = std::from_chars(words[i], end, numbers[i - 1]);
        understood = read.ec == std::errc() && read.ptr == end;
    }
    if (!understood)
    {
        std::fprintf(stderr, "simulate SECONDS [SEED] | simulate seed SEED | simulate tell SEED\n");
        return 2;
    }
    if (one)
        return tell_one(numbers[1], first == "tell");
    const auto clock = std::chrono::system_clock::now().time_since_epoch();
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(clock).count();
    return run_for(static_cast<int>(numbers[0]),
                   count == 3 ? numbers[1] : static_cast<std::uint64_t>(seconds) * 1000);
}
