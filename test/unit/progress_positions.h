// Positions for tests of Progress.
#pragma once

#include "bgworker/engine/common/progress.h"

#include <gtest/gtest.h>

#include <string>

namespace outbox::test
{

// A snapshot that has seen everything below `xmax`.
inline XidSnapshot
until(std::uint64_t xmax)
{
    XidSnapshot snapshot;
    EXPECT_TRUE(
        XidSnapshot::parse(std::to_string(xmax) + ":" + std::to_string(xmax) + ":", snapshot));
    return snapshot;
}

inline Position
at_rest(std::uint64_t xmax)
{
    return {until(xmax), until(xmax), 0};
}

inline std::string
shown(const Position &position)
{
    return position.from.to_text() + " " + position.to.to_text() + " " +
           std::to_string(position.last_seq);
}

} // namespace outbox::test
