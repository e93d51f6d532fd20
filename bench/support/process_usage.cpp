#include "process_usage.h"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>

#include <unistd.h>

#include "support/workspace.h"

namespace outbox::bench
{

namespace
{

std::string
proc_file(pid_t pid, const char *name)
{
    return test::read_file("/proc/" + std::to_string(pid) + "/" + name);
}

// The sum of two neighbouring fields of its "stat", which are times, the first of them this many
// fields behind the name.
double
two_times(pid_t pid, int first)
{
    const std::string stat = proc_file(pid, "stat");
    const size_t name_end = stat.rfind(')'); // the name may hold anything
    if (name_end == std::string::npos)
        return 0;
    std::istringstream words(stat.substr(name_end + 1));
    std::string skipped;
    for (int i = 1; i < first; i++)
        words >> skipped;
    double user = 0;
    double system = 0;
    words >> user >> system;
    return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// From a "schedstat", whose first number is nanoseconds.
double
scheduled_seconds(const std::string &schedstat)
{
    constexpr double kNanosecond = 1e-9;
    std::istringstream words(schedstat);
    double nanoseconds = 0;
    words >> nanoseconds;
    return nanoseconds * kNanosecond;
}

} // namespace

void
MemoryUse::raise_to(const MemoryUse &sample)
{
    peak_rss = std::max(peak_rss, sample.peak_rss);
    shared = std::max(shared, sample.shared);
    own = std::max(own, sample.own);
}

MemoryUse
memory_use(pid_t pid)
{
    constexpr long kKilobyte = 1024;
    std::istringstream lines(proc_file(pid, "status"));
    MemoryUse use;
    for (std::string line; std::getline(lines, line);)
    {
        std::istringstream words(line);
        std::string name;
        long kilobytes = 0;
        if (!(words >> name >> kilobytes))
            continue;
        if (name == "VmHWM:")
            use.peak_rss = kilobytes * kKilobyte;
        else if (name == "RssShmem:")
            use.shared = kilobytes * kKilobyte;
        else if (name == "RssAnon:" || name == "RssFile:")
            use.own += kilobytes * kKilobyte;
    }
    return use;
}

double
cpu_seconds(pid_t pid)
{
    return two_times(pid, 12); // utime, stime
}

double
ended_children_cpu_seconds(pid_t pid)
{
    return two_times(pid, 14); // cutime, cstime
}

double
exact_cpu_seconds(pid_t pid)
{
    double seconds = 0;
    for (const auto &thread :
         std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task"))
        seconds += scheduled_seconds(test::read_file(thread.path() / "schedstat"));
    return seconds;
}

double
main_thread_cpu_seconds(pid_t pid)
{
    return scheduled_seconds(proc_file(pid, "schedstat"));
}

double
machine_cpu_seconds()
{
    std::istringstream words(test::read_file("/proc/stat"));
    std::string cpu;
    double user = 0;
    double nice = 0;
    double system = 0;
    words >> cpu >> user >> nice >> system;
    return (user + nice + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

} // namespace outbox::bench
