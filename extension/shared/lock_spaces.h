// What is in field4 of our advisory locks, so that other programs' do not collide with them: 1 and
// 2 are those of PostgreSQL's functions. All of ours end with their transaction, or before.
#pragma once

#include "extension/server/pg.h"

namespace outbox
{

constexpr uint16 kLocksOfEventKeys = 0x0b0c;
constexpr uint16 kLocksOfRequestKeys = 0x0b0d;
constexpr uint16 kLocksOfProcessedEvents = 0x0b0e;
constexpr uint16 kLocksOfNumbers = 0x0b0f;
constexpr uint16 kLocksOfSubscriptions = 0x0b10;

constexpr bool
is_own_lock_space(uint16 space)
{
    return space >= kLocksOfEventKeys && space <= kLocksOfSubscriptions;
}

} // namespace outbox
