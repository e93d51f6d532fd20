#include "library_log.h"

#include <cstdio>

namespace outbox
{

void
LibraryLog::add(const char *facility, const char *text) noexcept
{
    if (count_ == kMost)
        dropped_++;
    else
        (void) std::snprintf(lines_[count_++], sizeof lines_[0], "%s: %s", facility, text);
}

void
LibraryLog::flush(Source &source, const char *library) noexcept
{
    char text[600];
    LogLine line;
    line.level = LogLine::Level::debug;
    line.text = text;
    for (int i = 0; i < count_; i++)
    {
        (void) std::snprintf(text, sizeof text, "outbox relay: %s: %s", library, lines_[i]);
        source.log(line);
    }
    if (dropped_ > 0)
    {
        (void) std::snprintf(text, sizeof text, "outbox relay: %d lines of %s dropped", dropped_,
                             library);
        source.log(line);
    }
    count_ = 0;
    dropped_ = 0;
}

} // namespace outbox
