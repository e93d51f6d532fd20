#include "faults.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <numeric>

namespace outbox::test
{

namespace
{

constexpr auto kRecoveryLimit = std::chrono::seconds(60);
// The position is written every fifth of a second, by an asynchronous commit that PostgreSQL makes
// durable within three times wal_writer_delay.
constexpr auto kRepeatable = std::chrono::seconds(1);

std::string
mean_and_max(const std::vector<double> &values)
{
    if (values.empty())
        return "-";
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    char text[64];
    std::snprintf(text, sizeof(text), "%.0f/%.0f", sum / static_cast<double>(values.size()),
                  *std::max_element(values.begin(), values.end()));
    return text;
}

// A backend in the middle of a transaction that has emitted.
pid_t
busy_backend(const TestDatabase &database)
{
    Db db = database.connect();
    std::vector<std::string> found;
    wait_until(std::chrono::seconds(20),
               [&]
               {
                   found = db.column("select pid from pg_stat_activity where datname = $1 and "
                                     "backend_type = 'client backend' and backend_xid is not null "
                                     "and pid <> pg_backend_pid()",
                                     database.name());
                   return !found.empty();
               });
    return static_cast<pid_t>(std::stoi(found.at(0)));
}

} // namespace

void
strike(Victim victim, PgCluster &server, const TestDatabase &database)
{
    switch (victim)
    {
    case Victim::kRelay:
        if (kill(database.relay_pid(), SIGKILL) != 0)
            throw std::runtime_error("the relay was gone before it was killed");
        break;
    case Victim::kBackend:
        if (kill(busy_backend(database), SIGKILL) != 0)
            throw std::runtime_error("the backend was gone before it was killed");
        break;
    case Victim::kPostmaster:
        server.kill9();
        server.start();
        break;
    case Victim::kEverything:
        server.restart(Shutdown::kImmediate);
        break;
    }
}

int
fault_rounds(int rounds)
{
    const char *wanted = std::getenv("OUTBOX_TEST_ROUNDS");
    return wanted != nullptr ? std::stoi(wanted) : rounds;
}

void
print_figures(const std::string &fault, int rounds, const Report &report,
              const std::vector<size_t> &duplicates, const std::vector<Milliseconds> &recoveries)
{
    std::vector<double> repeats(duplicates.begin(), duplicates.end());
    if (repeats.empty())
        repeats.push_back(static_cast<double>(report.duplicates));
    std::vector<double> times;
    for (const Milliseconds time : recoveries)
        times.push_back(static_cast<double>(time.count()));
    std::printf(
        "FIGURES | %s | rounds %d | events %zu | lost %zu | invented %zu | misordered %zu | "
        "duplicates mean/max %s | recovery ms mean/max %s\n",
        fault.c_str(), rounds, report.events, report.lost.size(), report.invented.size(),
        report.misordered.size(), mean_and_max(repeats).c_str(), mean_and_max(times).c_str());
    std::fflush(stdout);
}

FaultRounds::FaultRounds(std::string fault, Consumer &consumer, unsigned seed)
    : fault_(std::move(fault)), consumer_(consumer), random_(seed)
{
}

void
FaultRounds::read_for_random(Milliseconds at_most)
{
    consumer_.read_for(Milliseconds(choose(static_cast<int>(at_most.count()))));
}

// Returns how many of the new records repeat earlier ones.
size_t
FaultRounds::take_new_records()
{
    size_t repeated = 0;
    const std::vector<Record> &records = consumer_.records();
    for (; looked_at_ < records.size(); ++looked_at_)
        if (!seen_.insert(records[looked_at_].header("id").value_or("")).second)
            ++repeated;
    return repeated;
}

size_t
FaultRounds::received_since(WallClock::time_point start) const
{
    const std::vector<Record> &records = consumer_.records();
    const auto older = std::find_if(records.rbegin(), records.rend(),
                                    [&](const Record &record) { return record.received < start; });
    return static_cast<size_t>(older - records.rbegin());
}

void
FaultRounds::begin()
{
    if (!duplicates_.empty())
        duplicates_.back() += take_new_records();
    else
        late_duplicates_ += take_new_records();
    began_ = WallClock::now();
}

void
FaultRounds::struck()
{
    // What is still on its way to us was there before the blow, too.
    consumer_.read_for(Milliseconds(50));
    allowed_ += received_since(began_ - kRepeatable);
    duplicates_.push_back(take_new_records());

    struck_ms_ =
        std::chrono::duration_cast<Milliseconds>(WallClock::now().time_since_epoch()).count();
}

void
FaultRounds::wait_recovered()
{
    size_t looked_at = consumer_.records().size();
    bool recovered = false;
    consumer_.read_until(kRecoveryLimit,
                         [&](const std::vector<Record> &records)
                         {
                             for (; looked_at < records.size() && !recovered; ++looked_at)
                                 recovered = records[looked_at].timestamp_ms > struck_ms_;
                             return recovered;
                         });
    EXPECT_TRUE(recovered) << fault_ << ": no new event within a minute";
    recoveries_.push_back(std::chrono::duration_cast<Milliseconds>(WallClock::now() - began_));
    duplicates_.back() += take_new_records();
}

void
FaultRounds::judge(const Report &report)
{
    EXPECT_TRUE(report.complete_and_ordered()) << fault_ << ": " << report.summary();
    EXPECT_EQ(late_duplicates_, 0U) << fault_ << ": duplicates before the first blow";
    EXPECT_LE(report.duplicates, allowed_) << fault_ << ": " << report.summary();
    if (!duplicates_.empty())
        duplicates_.back() += take_new_records();
    print_figures(fault_, static_cast<int>(recoveries_.size()), report, duplicates_, recoveries_);
}

} // namespace outbox::test
