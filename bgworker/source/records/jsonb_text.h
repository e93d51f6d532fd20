// The text of a jsonb value.
#pragma once

#include "extension/server/pg.h"

#include <string_view>

namespace outbox
{

enum class JsonbTextResult
{
    whole,
    too_long,
    too_deep
};

// Byte for byte what PostgreSQL's own jsonb to text cast gives, in the current memory context; the
// server's code for it spends most of its time on steps that a value already in memory does not
// need. Layout of jsonb: utils/jsonb.h. Stops as soon as the text is longer than `limit` (less than
// MaxAllocSize by a megabyte), as a number of a few bytes may stand for 147,000 digits; and at
// values that are nested deeper than `depth`.
JsonbTextResult jsonb_text(Jsonb *value, size_t limit, int depth, std::string_view *text);

} // namespace outbox
