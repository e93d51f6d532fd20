// SPI without surprises: anything but the expected result is an error.
#pragma once

#include "extension/server/pg.h"

namespace outbox
{

inline void
spi_expect(int result, int expected)
{
    if (result != expected)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
                        errmsg("outbox relay: unexpected result of a statement: %s",
                               SPI_result_code_string(result))));
}

inline void
spi_connect()
{
    spi_expect(SPI_connect(), SPI_OK_CONNECT);
}

inline void
spi_execute(const char *statement, int count, Oid *types, Datum *values, int expected)
{
    spi_expect(SPI_execute_with_args(statement, count, types, values, nullptr, false, 0), expected);
}

inline SPIPlanPtr
spi_prepare(const char *statement, int count, Oid *types)
{
    SPIPlanPtr plan = SPI_prepare(statement, count, types);
    if (plan == nullptr)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
                        errmsg("outbox relay: could not prepare a statement: %s",
                               SPI_result_code_string(SPI_result))));
    return plan;
}

// A field of what the last statement gave: rows count from 0, columns from 1. Null fields can only
// be told with is_null.
inline Datum
spi_value(uint64 row, int column, bool *is_null = nullptr)
{
    bool ignored;
    return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column,
                         is_null != nullptr ? is_null : &ignored);
}

// The same of its first row.
inline Datum
spi_first(int column, bool *is_null = nullptr)
{
    return spi_value(0, column, is_null);
}

// As text; null if the field is.
inline char *
spi_first_text(int column)
{
    return SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, column);
}

// For a statement that is run often: prepared at its first use, and kept in *plan.
inline SPIPlanPtr
spi_keep(SPIPlanPtr *plan, const char *statement, int count, Oid *types)
{
    if (*plan == nullptr)
    {
        SPIPlanPtr fresh = spi_prepare(statement, count, types);
        spi_expect(SPI_keepplan(fresh), 0);
        *plan = fresh;
    }
    return *plan;
}

inline void
spi_execute_kept(SPIPlanPtr *plan, const char *statement, int count, Oid *types, Datum *values,
                 int expected)
{
    spi_expect(SPI_execute_plan(spi_keep(plan, statement, count, types), values, nullptr, false, 0),
               expected);
}

// Sees what the snapshot sees, and what this transaction has done; others take a snapshot of their
// own, and what one of them has found may not be all that the next one meets.
inline void
spi_execute_as_of(Snapshot snapshot, SPIPlanPtr plan, Datum *values, int expected)
{
    spi_expect(
        SPI_execute_snapshot(plan, values, nullptr, snapshot, InvalidSnapshot, false, true, 0),
        expected);
}

} // namespace outbox
