#pragma once

#include "options.h"

namespace outbox::bench
{

// Measures the parts one after the other on servers of their own, prints how long that will take,
// prints each one's figures and keeps them in a file as soon as it is done.
void run_parts(const Options &options);

} // namespace outbox::bench
