// The row that a function of ours returns.
#pragma once

#include "pg.h"

#include "server_text.h"

#include <string_view>

namespace outbox
{

// Columns in the order of the function's declaration. Those that are not added are null: columns
// are only ever added, at the end, and the SQL of another version may have more of them.
class ResultRow
{
public:
    static constexpr int kMostColumns = 32;

    void add(Datum value, bool is_null = false)
    {
        Assert(used_ < kMostColumns);
        nulls_[used_] = is_null;
        values_[used_++] = value;
    }
    void add_null() { add(static_cast<Datum>(0), true); }
    // 0: null
    void add_time(TimestampTz time) { add(TimestampTzGetDatum(time), time == 0); }
    void add_text(std::string_view text) { add(PointerGetDatum(server_text(text))); }
    void add_text_or_null(const char *text) { text[0] == '\0' ? add_null() : add_text(text); }

    // In the current memory context.
    Datum as_datum(TupleDesc desc)
    {
        for (int i = used_; i < desc->natts; i++)
            nulls_[i] = true;
        return HeapTupleGetDatum(heap_form_tuple(desc, values_, nulls_));
    }

private:
    Datum values_[kMostColumns] = {};
    bool nulls_[kMostColumns] = {};
    int used_ = 0;
};

// The type of that row, with as many columns as are expected, or, of a function whose columns
// differ between versions (0), with as many as there are. The library may be newer than the
// extension's SQL, or older: then an error says so.
TupleDesc result_type(FunctionCallInfo fcinfo, int columns);

} // namespace outbox
