// Where the figures come from.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "support/pg.h"

namespace outbox::bench
{

// Names and values, to be printed: hardware, operating system, versions, and how busy the machine
// was before.
std::vector<std::pair<std::string, std::string>> describe_machine();

// The same for the software under test; needs the extension in `db`.
std::vector<std::pair<std::string, std::string>> describe_versions(test::Db &db);

// Processes that wanted a processor during the last minute, on average.
double load_average();

} // namespace outbox::bench
