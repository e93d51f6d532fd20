// The secret in outbox.lane_key.
#pragma once

namespace outbox
{

// Lanes are hashed by it from now on; it is made when there is none. In a transaction.
void load_lane_key();

} // namespace outbox
