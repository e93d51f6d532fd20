// The options of a subscription that say how long it may hold events back.
#pragma once

#include "for_relay.h"

#include "extension/server/pg.h"

extern "C"
{
#include "utils/jsonb.h"
}

namespace outbox
{

struct MaxLag
{
    int seconds; // 0: for ever
    bool detaches;
};
OUTBOX_FOR_RELAY MaxLag max_lag_of(Jsonb *options);

} // namespace outbox
