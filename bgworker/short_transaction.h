// The relay's transactions: short, with a snapshot, never open while it waits for anything.
#pragma once

#include "bgworker/relay/owners.h"

#include "extension/pg.h"

namespace outbox
{

inline void
begin_transaction()
{
    StartTransactionCommand();
    PushActiveSnapshot(GetTransactionSnapshot());
    refuse_foreign_owners();
}

inline void
end_transaction()
{
    PopActiveSnapshot();
    CommitTransactionCommand();
}

} // namespace outbox
