// Lines of the sink's library, until a round passes them on.
#pragma once

#include "bgworker/engine/source.h"

namespace outbox
{

// Keeps the first lines of a round and counts the others. Allocates nothing.
class LibraryLog
{
public:
    void add(const char *facility, const char *text) noexcept;
    // Passes them on, and forgets them.
    void flush(Source &source, const char *library) noexcept;

private:
    static constexpr int kMost = 16;

    char lines_[kMost][512];
    int count_ = 0;
    int dropped_ = 0;
};

} // namespace outbox
