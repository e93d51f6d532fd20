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

// For a statement that is run often: prepared at its first use, and kept in *plan.
inline void
spi_execute_kept(SPIPlanPtr *plan, const char *statement, int count, Oid *types, Datum *values,
                 int expected)
{
    if (*plan == nullptr)
    {
        SPIPlanPtr fresh = SPI_prepare(statement, count, types);
        if (fresh == nullptr || SPI_keepplan(fresh) != 0)
            ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
                            errmsg("outbox relay: could not prepare a statement: %s",
                                   SPI_result_code_string(SPI_result))));
        *plan = fresh;
    }
    spi_expect(SPI_execute_plan(*plan, values, nullptr, false, 0), expected);
}

} // namespace outbox
