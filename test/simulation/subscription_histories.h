// Histories in which a log has several subscriptions.
#pragma once

#include "acts.h"

namespace outbox::sim
{

// To some histories, chosen by their seeds, adds subscriptions besides `default` and what happens
// to them. What was in them is the same with it and without; the acts are not in order then.
void add_subscriptions(History &history);

} // namespace outbox::sim
