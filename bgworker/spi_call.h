// SPI without surprises: anything but the expected result is an error.
#pragma once

#include "../extension/pg.h"

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

} // namespace outbox
