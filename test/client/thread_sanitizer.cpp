// librdkafka makes threads and locks by the functions of C11, which ThreadSanitizer does not know:
// its threads would crash, and its locks not count. In that build they are those of POSIX, which
// glibc has them be anyhow.
#ifdef __SANITIZE_THREAD__

#include <cerrno>
#include <cstdint>

#include <pthread.h>
#include <threads.h>

namespace
{

struct Start
{
    thrd_start_t function;
    void *argument;
};

void *
run(void *opaque)
{
    const Start start = *static_cast<Start *>(opaque);
    delete static_cast<Start *>(opaque);
    return reinterpret_cast<void *>(static_cast<std::intptr_t>(start.function(start.argument)));
}

int
to_c11(int error)
{
    return error == 0           ? thrd_success
           : error == EBUSY     ? thrd_busy
           : error == ENOMEM    ? thrd_nomem
           : error == ETIMEDOUT ? thrd_timedout
                                : thrd_error;
}

pthread_mutex_t *
posix(mtx_t *mutex)
{
    return reinterpret_cast<pthread_mutex_t *>(mutex);
}

pthread_cond_t *
posix(cnd_t *condition)
{
    return reinterpret_cast<pthread_cond_t *>(condition);
}

} // namespace

extern "C"
{
    // What librdkafka calls itself is left out, see thread_sanitizer.supp; calls from here count,
    // and with them what its read-write locks order.
    int __interceptor_pthread_rwlock_rdlock(pthread_rwlock_t *lock);
    int __interceptor_pthread_rwlock_wrlock(pthread_rwlock_t *lock);
    int __interceptor_pthread_rwlock_unlock(pthread_rwlock_t *lock);

    int pthread_rwlock_rdlock(pthread_rwlock_t *lock) noexcept
    {
        return __interceptor_pthread_rwlock_rdlock(lock);
    }
    int pthread_rwlock_wrlock(pthread_rwlock_t *lock) noexcept
    {
        return __interceptor_pthread_rwlock_wrlock(lock);
    }
    int pthread_rwlock_unlock(pthread_rwlock_t *lock) noexcept
    {
        return __interceptor_pthread_rwlock_unlock(lock);
    }

    int thrd_create(thrd_t *thread, thrd_start_t function, void *argument)
    {
        return to_c11(pthread_create(thread, nullptr, &run, new Start{function, argument}));
    }
    int thrd_join(thrd_t thread, int *result)
    {
        void *value = nullptr;
        const int error = pthread_join(thread, &value);
        if (result != nullptr)
            *result = static_cast<int>(reinterpret_cast<std::intptr_t>(value));
        return to_c11(error);
    }
    int thrd_detach(thrd_t thread)
    {
        return to_c11(pthread_detach(thread));
    }

    int mtx_init(mtx_t *mutex, int type)
    {
        pthread_mutexattr_t attributes;
        pthread_mutexattr_init(&attributes);
        if ((type & mtx_recursive) != 0)
            pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
        const int error = pthread_mutex_init(posix(mutex), &attributes);
        pthread_mutexattr_destroy(&attributes);
        return to_c11(error);
    }
    int mtx_lock(mtx_t *mutex)
    {
        return to_c11(pthread_mutex_lock(posix(mutex)));
    }
    int mtx_trylock(mtx_t *mutex)
    {
        return to_c11(pthread_mutex_trylock(posix(mutex)));
    }
    int mtx_unlock(mtx_t *mutex)
    {
        return to_c11(pthread_mutex_unlock(posix(mutex)));
    }
    void mtx_destroy(mtx_t *mutex)
    {
        pthread_mutex_destroy(posix(mutex));
    }

    int cnd_init(cnd_t *condition)
    {
        return to_c11(pthread_cond_init(posix(condition), nullptr));
    }
    int cnd_signal(cnd_t *condition)
    {
        return to_c11(pthread_cond_signal(posix(condition)));
    }
    int cnd_broadcast(cnd_t *condition)
    {
        return to_c11(pthread_cond_broadcast(posix(condition)));
    }
    int cnd_wait(cnd_t *condition, mtx_t *mutex)
    {
        return to_c11(pthread_cond_wait(posix(condition), posix(mutex)));
    }
    int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const timespec *until)
    {
        return to_c11(pthread_cond_timedwait(posix(condition), posix(mutex), until));
    }
    void cnd_destroy(cnd_t *condition)
    {
        pthread_cond_destroy(posix(condition));
    }
}

#endif
