// Statements that SQL functions run: prepared at their first use in a session, and kept.
#pragma once

#include "trust.h"
#include "without_triggers.h"

namespace outbox
{

// Lives as long as the session. `what` completes "could not ...".
struct KeptStatement
{
    const char *text;
    const char *what;
    int count;
    const Oid *types;
    SPIPlanPtr plan;
};

// Runs the statement, which must give `expected`, between SPI_connect() and SPI_finish(). `nulls`
// is as SPI_execute_plan() takes it, and so is `limit`: 0 stands for all rows. Returns the number
// of rows. Only trusted code runs, or nothing does; see trust.h.
inline uint64
run_statement(KeptStatement *statement, Datum *values, const char *nulls, int expected,
              bool read_only = false, long limit = 0)
{
    require_trusted_objects();
    if (statement->plan == nullptr)
    {
        SPIPlanPtr fresh =
            SPI_prepare(statement->text, statement->count, const_cast<Oid *>(statement->types));
        if (fresh == nullptr || SPI_keepplan(fresh) != 0)
            ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
                            errmsg("could not prepare to %s: %s", statement->what,
                                   SPI_result_code_string(SPI_result))));
        statement->plan = fresh;
    }
    const int result =
        execute_plan_without_triggers(statement->plan, values, nulls, read_only, limit);
    if (result != expected)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not %s: %s", statement->what,
                                                                SPI_result_code_string(result))));
    return SPI_processed;
}

inline void
connect_spi()
{
    if (SPI_connect() != SPI_OK_CONNECT)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not connect to SPI")));
}

inline void
finish_spi()
{
    if (SPI_finish() != SPI_OK_FINISH)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not disconnect from SPI")));
}

// Hands the rows of the last statement to a function that returns a set; begin_returned_rows() must
// have been called before SPI_connect().
inline void
return_rows(FunctionCallInfo fcinfo)
{
    ReturnSetInfo *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
    for (uint64 i = 0; i < SPI_processed; i++)
        tuplestore_puttuple(result->setResult, SPI_tuptable->vals[i]);
}

} // namespace outbox
