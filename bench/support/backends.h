#pragma once

#include <functional>

#include "servers.h"

namespace outbox::bench
{

// Does the work, and returns the most memory that a client's backend in the database had for itself
// meanwhile, in bytes.
long most_backend_memory(const Database &database, const std::function<void()> &work);

} // namespace outbox::bench
