// Texts in the database's encoding, whole characters only.
#pragma once

#include "pg.h"

#include <string_view>

namespace outbox
{

// Whether PostgreSQL can make UTF-8 of this database's texts, or takes them as they are.
// MULE_INTERNAL has no conversion.
inline bool
has_way_to_utf8()
{
    const int encoding = GetDatabaseEncoding();
    return encoding == PG_UTF8 || encoding == PG_SQL_ASCII ||
           OidIsValid(FindDefaultConversionProc(encoding, PG_UTF8));
}

// At most `most` bytes of a text of this database, not ending inside a character. clip() is for
// UTF-8 alone.
inline std::string_view
clip_server(std::string_view text, int most)
{
    const int size = static_cast<int>(text.size());
    return text.substr(0, static_cast<size_t>(pg_mbcliplen(text.data(), size, most)));
}

// A value for SQL from a text that was cut to its buffer, or that others wrote, Kafka for example:
// a character that is not whole is left out at the end and is "?" elsewhere. A client's query would
// fail over it, or the client.
inline text *
server_text(std::string_view from)
{
    const int encoding = GetDatabaseEncoding();
    const int size = static_cast<int>(from.size());
    if (pg_verify_mbstr(encoding, from.data(), size, true))
        return cstring_to_text_with_len(from.data(), size);
    char *const copy = static_cast<char *>(palloc(from.size()));
    int used = 0;
    for (int place = 0; place < size;)
    {
        const int length = pg_encoding_mblen(encoding, from.data() + place);
        if (length > size - place)
            break;
        const bool whole = pg_verify_mbstr(encoding, from.data() + place, length, true);
        if (whole)
            memcpy(copy + used, from.data() + place, static_cast<size_t>(length));
        else
            copy[used] = '?';
        used += whole ? length : 1;
        place += whole ? length : 1;
    }
    return cstring_to_text_with_len(copy, used);
}

} // namespace outbox
