#include "backends.h"

#include <algorithm>
#include <chrono>
#include <future>

#include "process_usage.h"

namespace outbox::bench
{

long
most_backend_memory(const Database &database, const std::function<void()> &work)
{
    constexpr auto kLook = std::chrono::milliseconds(50);
    test::Db db = database.connect();
    std::future<void> done = std::async(std::launch::async, work);
    long most = 0;
    while (done.wait_for(kLook) != std::future_status::ready)
        for (const std::string &pid :
             db.column("select pid from pg_stat_activity where datname = current_database() and "
                       "backend_type = 'client backend' and pid <> pg_backend_pid()"))
            most = std::max(most, memory_use(std::stoi(pid)).own);
    done.get(); // throws what the work threw
    return most;
}

} // namespace outbox::bench
