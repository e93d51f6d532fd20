#pragma once

#include "extension/server/pg.h"

extern "C"
{
#include "lib/stringinfo.h"
}

namespace outbox
{

// Appends what numeric_out() writes. That goes through two copies of the number in its working
// form; here the digits are taken from the stored form.
void append_numeric(StringInfo to, Numeric value);

} // namespace outbox
