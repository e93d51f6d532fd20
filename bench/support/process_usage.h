// What a process takes, as the kernel counts it.
#pragma once

#include <sys/types.h>

namespace outbox::bench
{

// In bytes. Shared memory is PostgreSQL's: each of its processes maps the shared buffers, and what
// it has touched of them counts as its resident memory, although they exist once.
struct MemoryUse
{
    long peak_rss = 0; // VmHWM: the most that was ever resident, shared memory included
    long shared = 0;   // RssShmem now
    long own = 0;      // RssAnon and RssFile now: all but shared memory

    // Keeps the largest of each, from samples over time.
    void raise_to(const MemoryUse &sample);
};

// All zero when the process is not there.
MemoryUse memory_use(pid_t pid);

// Processor time of all its threads so far, in seconds; in steps of a clock tick (10 ms).
double cpu_seconds(pid_t pid);

// The same, exactly, of the threads that it has now. For processes in which none ends meanwhile.
double exact_cpu_seconds(pid_t pid);

// Processor time of its children that have ended so far, in seconds.
double ended_children_cpu_seconds(pid_t pid);

// Processor time of its first thread so far, exactly. For PostgreSQL's backends, which have no
// other.
double main_thread_cpu_seconds(pid_t pid);

// Processor time that all processes of the machine have used so far, in seconds.
double machine_cpu_seconds();

} // namespace outbox::bench
