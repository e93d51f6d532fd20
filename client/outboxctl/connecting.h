// Connecting to PostgreSQL so that a signal ends the wait.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <libpq-fe.h>

namespace outbox::ctl
{

using Connection = std::unique_ptr<PGconn, decltype(&PQfinish)>;
using Settings = std::vector<std::pair<std::string, std::string>>; // names and values

// PQconnectdbParams(), with all that it does about several hosts and addresses: each has its
// connect_timeout, which libpq's functions that do not block know nothing of. So it runs in a
// thread while signals are waited for; throws Interrupted when one asks to end.
Connection connect(const Settings &settings);

// A thread that was left alone still runs: the program must end without its exit handlers.
bool connecting_lingers();

} // namespace outbox::ctl
