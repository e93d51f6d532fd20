// What requests are compared by, and outbox.request_hash().

#include "key_hash.h"

#include "extension/server/arguments.h"

namespace outbox
{

namespace
{

void
append_part(StringInfo all, const varlena *part)
{
    const uint64 length = part == nullptr ? 0 : VARSIZE_ANY_EXHDR(part);
    const uint64 network_order = pg_hton64(length);
    appendBinaryStringInfo(all, reinterpret_cast<const char *>(&network_order),
                           sizeof(network_order));
    if (length > 0)
        appendBinaryStringInfo(all, VARDATA_ANY(part), static_cast<int>(length));
}

// The same hash in databases of every encoding, and in a client. A database in SQL_ASCII does not
// know what its bytes mean, and a client's are stored as they come, so they are taken as they are;
// so are those of MULE_INTERNAL, which has no conversion. ASCII is the same there, too.
text *
as_utf8(text *value)
{
    if (GetDatabaseEncoding() == PG_SQL_ASCII || GetDatabaseEncoding() == PG_MULE_INTERNAL)
        return value;
    const int length = static_cast<int>(VARSIZE_ANY_EXHDR(value));
    char *converted = pg_server_to_any(VARDATA_ANY(value), length, PG_UTF8);
    return converted == VARDATA_ANY(value) ? value : cstring_to_text(converted);
}

} // namespace

bytea *
hash_parts(const varlena *const *parts, int count)
{
    StringInfoData all;
    initStringInfo(&all);
    // Room for the length word of the bytea that the buffer becomes.
    appendStringInfoSpaces(&all, VARHDRSZ);
    for (int i = 0; i < count; i++)
        append_part(&all, parts[i]);
    SET_VARSIZE(all.data, all.len);
    bytea *hash = DatumGetByteaPP(DirectFunctionCall1(sha256_bytea, PointerGetDatum(all.data)));
    pfree(all.data);
    return hash;
}

} // namespace outbox

extern "C"
{
    OUTBOX_FUNCTION(outbox_request_hash);

    Datum outbox_request_hash(PG_FUNCTION_ARGS)
    {
        outbox::check_not_null(fcinfo, 0, "method", "Pass the request's method, such as POST.");
        outbox::check_not_null(fcinfo, 1, "path", "Pass the request's path.");
        const varlena *parts[] = {outbox::as_utf8(PG_GETARG_TEXT_PP(0)),
                                  outbox::as_utf8(PG_GETARG_TEXT_PP(1)),
                                  PG_ARGISNULL(2) ? nullptr : PG_GETARG_BYTEA_PP(2)};
        PG_RETURN_BYTEA_P(outbox::hash_parts(parts, lengthof(parts)));
    }
}
