// A record's headers: those of the relay, in one format or both, then the caller's.
#pragma once

#include "wire.h"

namespace outbox
{

// Part of build_record(): all headers together may take `limit` bytes.
BuildResult set_headers(const EventRow &event, const EventTexts &texts, size_t limit,
                        Record *record, RecordProblem *problem);

} // namespace outbox
