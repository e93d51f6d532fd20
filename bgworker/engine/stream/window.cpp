#include "window.h"

#include <utility>

namespace outbox
{

namespace
{

// Keys kept in memory, and the run of index entries that a large backlog is cut into.
constexpr std::size_t kKeysInMemory = 128UL * 1024;
constexpr std::size_t kZoneEntries = 8192;

} // namespace

Window::Window() : keys_(kKeysInMemory, kZoneEntries) {}

void
Window::start(const Position &position, Progress &progress)
{
    progress.reset(position);
    read_up_to_ = position.to;
    keys_.open(position.from, position.to, position.last_seq, kRingPartitions);
    open_ = progress.windows() > 0;
}

bool
Window::open(Source &source, Progress &progress)
{
    XidSnapshot to;
    source.take_snapshot(to);
    looks_++;
    if (to == read_up_to_)
        return false;
    keys_.open(read_up_to_, to, kLowestSeq, kRingPartitions);
    progress.open_window(to);
    read_up_to_ = std::move(to);
    open_ = true;
    return true;
}

bool
Window::scan(Source &source)
{
    while (keys_.need_scan())
        if (!source.scan(keys_))
            return false;
    return true;
}

void
Window::close(Progress &progress) noexcept
{
    progress.close_window();
    open_ = false;
}

} // namespace outbox
