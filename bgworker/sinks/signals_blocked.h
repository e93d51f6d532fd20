// Keeps the server's signals away from threads that are not PostgreSQL's.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace outbox
{

// Blocks every signal of the calling thread while it exists. Threads started meanwhile inherit
// that for good: a latch's SIGURG or a SIGTERM that they caught would never reach the server's
// own thread. A library may do so for its own threads, what it loads does not.
class SignalsBlocked
{
public:
    SignalsBlocked() noexcept
    {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

    SignalsBlocked(const SignalsBlocked &) = delete;
    SignalsBlocked &operator=(const SignalsBlocked &) = delete;

private:
    sigset_t before_;
};

} // namespace outbox
