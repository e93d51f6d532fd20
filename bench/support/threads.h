#pragma once

#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace outbox::bench
{

// Runs work(0) ... work(count - 1), each in a thread, waits for all, and throws what one threw.
inline void
run_threads(int count, const std::function<void(int)> &work)
{
    std::vector<std::exception_ptr> errors(static_cast<size_t>(count));
    std::vector<std::thread> threads;
    threads.reserve(errors.size());
    for (int i = 0; i < count; i++)
        threads.emplace_back(
            [&, i]
            {
                try
                {
                    work(i);
                }
                catch (...)
                {
                    errors[static_cast<size_t>(i)] = std::current_exception();
                }
            });
    for (std::thread &thread : threads)
        thread.join();
    for (const std::exception_ptr &error : errors)
        if (error)
            std::rethrow_exception(error);
}

} // namespace outbox::bench
