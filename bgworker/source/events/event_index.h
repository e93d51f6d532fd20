// Keys for scans of a partition's index, which is on (xid, seq).
#pragma once

#include "bgworker/engine/common/window_keys.h"

#include "event_tables.h"

#include "extension/server/pg.h"

extern "C"
{
#include "utils/fmgroids.h"
}

namespace outbox
{

inline void
set_key(ScanKeyData *key, AttrNumber column, StrategyNumber strategy, RegProcedure procedure,
        int64 value)
{
    ScanKeyInit(key, column, strategy, procedure, Int64GetDatum(value));
}

// Narrows a scan to the range: to the entry when it is within one transaction, else to its
// transactions. Returns the number of keys.
inline int
set_keys(ScanKeyData *keys, const IndexRange &range)
{
    const int64 first = static_cast<int64>(range.first.xid);
    const int64 last = static_cast<int64>(range.last.xid);
    if (first == last)
    {
        set_key(&keys[0], 1, BTEqualStrategyNumber, F_INT8EQ, first);
        set_key(&keys[1], 2, BTGreaterEqualStrategyNumber, F_INT8GE, range.first.seq);
        set_key(&keys[2], 2, BTLessEqualStrategyNumber, F_INT8LE, range.last.seq);
        return 3;
    }
    set_key(&keys[0], 1, BTGreaterEqualStrategyNumber, F_INT8GE, first);
    set_key(&keys[1], 1, BTLessEqualStrategyNumber, F_INT8LE, last);
    return 2;
}

} // namespace outbox
