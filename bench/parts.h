#pragma once

#include <vector>

#include "part.h"

namespace outbox::bench
{

// All, in the order in which they are measured and written down.
const std::vector<Part> &parts();

// Throws when there is none of that name.
const Part &part_of(const std::string &name);

} // namespace outbox::bench
