#include "detached_thread.h"

#include "system_error.h"

#include <csignal>
#include <system_error>
#include <thread>
#include <utility>

#include <dlfcn.h>
#include <pthread.h>

namespace outbox::v0::detail
{

namespace
{

class SignalsBlocked
{
public:
    SignalsBlocked()
    {
        sigset_t all;
        sigfillset(&all);
        (void) pthread_sigmask(SIG_SETMASK, &all, &before_); // fails for bad arguments only
    }
    ~SignalsBlocked() { (void) pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked &) = delete;
    SignalsBlocked &operator=(const SignalsBlocked &) = delete;

private:
    sigset_t before_{};
};

// Whatever object we were linked into, dlclose() leaves it where it is. A program, for which
// dlopen() finds nothing here, stays anyhow.
bool
pin()
{
    Dl_info self = {};
    if (dladdr(reinterpret_cast<void *>(&start_detached), &self) == 0 || self.dli_fname == nullptr)
        return false;
    // The handle is not closed: it is what keeps us.
    return dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE) != nullptr;
}

} // namespace

void
stay_loaded()
{
    static const bool stays = pin();
    (void) stays;
}

void
start_detached(std::function<void()> task)
{
    stay_loaded();
    const SignalsBlocked blocked; // the thread inherits that
    try
    {
        std::thread(std::move(task)).detach();
    }
    catch (const std::system_error &error)
    {
        throw SystemError("no thread can be started", error.code().value());
    }
}

} // namespace outbox::v0::detail
