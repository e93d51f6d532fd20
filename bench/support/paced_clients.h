// Clients that do something at a given rate, together.
#pragma once

#include <functional>

namespace outbox::bench
{

// What a client does each time; `number` counts over all clients from 0.
using Action = std::function<void(int number)>;

// Runs `clients` threads, each with the action that `make_action` (called in the thread) has for
// it, until `count` actions are done. Their times are spread at random around an even pace, so that
// they beat with no timer of the servers. A client that falls behind continues at once. Throws what
// an action threw.
void run_paced(int clients, int rate, int count, const std::function<Action(int)> &make_action);

} // namespace outbox::bench
