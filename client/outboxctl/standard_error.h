// What libraries write to standard error by themselves.
#pragma once

#include <string_view>

namespace outbox::ctl
{

// From then on what is written to stderr has its control characters escaped. libpq writes there
// what a server says while it connects, before it can be told to do anything else with it.
void escape_standard_error();

// What this thread writes there has its passwords taken out, too.
void mask_errors_of_this_thread();

// Past that, for a terminal that is to obey: as much as it takes.
void write_raw_error(std::string_view text);

} // namespace outbox::ctl
