// Connection strings, and the passwords in them.
#pragma once

#include "extension/core/secrets.h"

#include <string>
#include <vector>

namespace outbox::ctl
{

// What libpq takes after -d: a database's name, a connection string or a URI. Throws Error when it
// would be misunderstood; libpq's own messages would quote it, and there may be a password in it.
void check_conninfo(const std::string &conninfo);

// Whether libpq takes it as a URI or as settings, not as a name.
bool is_connection_string(const std::string &conninfo);

// Overwrites the passwords among the arguments, so that a list of processes does not show them: of
// the connection string, and of librdkafka properties.
void hide_passwords(int argc, char **argv, const std::string &conninfo,
                    const std::vector<std::string> &properties);

} // namespace outbox::ctl
