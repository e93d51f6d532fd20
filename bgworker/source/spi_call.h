// SPI without surprises: anything but the expected result is an error.
#pragma once

#include "extension/pg.h"

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
