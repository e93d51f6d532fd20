// Connecting to PostgreSQL so that a signal ends the wait.
#pragma once

#include "client/src/connect.h"

#include <string>
#include <vector>

#include <libpq-fe.h>

namespace outbox::ctl
{

using outbox::v0::detail::Connection;
using outbox::v0::detail::Connector;

struct Connected
{
    Connection connection{nullptr, &PQfinish}; // one that failed, or none, where there is an error
    std::string error;                         // what each host said; it may hold passwords
    std::vector<std::string> notices;          // the first ones; the same holds for them
};

// As the C++ client connects, in a thread, as signals are waited for meanwhile; throws Interrupted
// when one asks to end.
Connected connect(const Connector::Settings &settings);

// A thread that was left alone still runs: the program must end without its exit handlers.
bool connecting_lingers();

} // namespace outbox::ctl
