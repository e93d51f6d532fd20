// The options of a subscription to Kafka: settings of ours, by their names without the prefix.
#pragma once

#include "for_relay.h"

#include "extension/server/pg.h"

extern "C"
{
#include "utils/jsonb.h"
}

namespace outbox
{

// Raises invalid_parameter_value for an unknown option or none that is needed, and the error of the
// setting for a value that it does not take.
void check_subscription_options(Jsonb *options);

// Applies them to this process. Those that say how the other cluster is reached are not taken from
// the settings: these are of another one. One that is not usable any more is left out with a
// warning.
OUTBOX_FOR_RELAY void apply_subscription_options(Jsonb *options);

// What of them says how long the subscription may hold events back.
struct MaxLag
{
    int seconds; // 0: for ever
    bool detaches;
};
OUTBOX_FOR_RELAY MaxLag max_lag_of(Jsonb *options);

} // namespace outbox
