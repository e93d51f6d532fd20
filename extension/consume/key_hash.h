// SHA-256 over several texts that cannot be taken for each other.
#pragma once

#include "extension/server/pg.h"

namespace outbox
{

constexpr int kHashBytes = 32;

// SHA-256 (32 bytes) of the parts, each preceded by its length as 8 bytes, most significant first.
// A part may be null, which is as good as empty.
bytea *hash_parts(const varlena *const *parts, int count);

} // namespace outbox
