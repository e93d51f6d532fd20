// The text of a jsonb value.
#pragma once

#include "extension/pg.h"

#include <string_view>

namespace outbox
{

// Byte for byte what PostgreSQL's own jsonb to text cast gives, in the current memory context; the
// server's code for it spends most of its time on steps that a value already in memory does not
// need. Layout of jsonb: utils/jsonb.h.
std::string_view jsonb_text(Jsonb *value);

} // namespace outbox
