#pragma once

#include "extension/pg.h"

extern "C"
{
#include "lib/stringinfo.h"
}

namespace outbox
{

// Appends what numeric_out() writes. That goes through two copies of the number in its working
// form; here the digits are taken from the stored form, which holds four decimal digits in each
// 16-bit number (PostgreSQL's utils/adt/numeric.c, "NumericShort", unchanged since 9.1). What is
// stored otherwise (more than 63 digits after the point, more than 256 before it, infinities) is
// left to numeric_out().
void append_numeric(StringInfo to, Numeric value);

} // namespace outbox
