// Values that statements on outbox.deliveries are given, and rows that they return. All of this
// needs PostgreSQL's current memory context, and raises its errors.
#pragma once

#include <string_view>
#include <vector>

#include "bgworker/engine/deliveries.h"

#include "extension/server/pg.h"

extern "C"
{
#include "utils/array.h"
}

namespace outbox
{

inline Datum
text_datum(std::string_view text)
{
    return PointerGetDatum(cstring_to_text_with_len(text.data(), static_cast<int>(text.size())));
}

// Lanes and numbers are both stored as bigint.
template <typename T>
ArrayType *
int8_array(const T *numbers, size_t count)
{
    Datum *elements = static_cast<Datum *>(palloc(sizeof(Datum) * (count + 1)));
    for (size_t i = 0; i < count; i++)
        elements[i] = Int64GetDatum(static_cast<int64>(numbers[i]));
    return construct_array(elements, static_cast<int>(count), INT8OID, sizeof(int64),
                           FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
}

// The columns of a row as statements select them, see read_rows().
#define DELIVERY_ROW "d.seq, d.xid, d.slot, d.lane, d.attempts, d.state = 'WAITING', d.blocking "

// Adds the rows that the last statement has returned.
void read_rows(std::vector<DeliveryRow> &rows);
void read_row(uint64 number, DeliveryRow &row);

// Whether this transaction may change a row without waiting: there is none, or no other transaction
// holds it.
bool is_free(int64 seq);

} // namespace outbox
