#pragma once

#include "pg.h"

#include <string_view>

namespace outbox
{

// The bytes of a text or bytea that is not compressed, nor stored out of line.
inline std::string_view
text_view(const struct varlena *value)
{
    return {VARDATA_ANY(value), static_cast<size_t>(VARSIZE_ANY_EXHDR(value))};
}

} // namespace outbox
