#include "process_usage.h"

#include <algorithm>
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
    const std::string stat = proc_file(pid, "stat");
    const size_t name_end = stat.rfind(')'); // the name may hold anything
    if (name_end == std::string::npos)
        return 0;
    std::istringstream words(stat.substr(name_end + 1));
    // After the name come state, ppid, ...; utime and stime are the 12th and 13th.
    std::string skipped;
    for (int i = 0; i < 11; i++)
        words >> skipped;
    double user = 0;
    double system = 0;
    words >> user >> system;
    return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double
main_thread_cpu_seconds(pid_t pid)
{
    constexpr double kNanosecond = 1e-9;
    std::istringstream words(proc_file(pid, "schedstat"));
    double nanoseconds = 0;
    words >> nanoseconds;
    return nanoseconds * kNanosecond;
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
