// The hosts that the settings of a connection name.
#pragma once

#include "outbox/export.h"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace outbox::v0::detail
{

using AllSettings = std::map<std::string, std::string>; // of libpq, by name

struct Host
{
    std::size_t place = 0;
    std::string name;
    std::string address;
    std::string port;
};

// Empty: it is not set.
std::string value_of(const AllSettings &settings, const char *name);

bool is_socket(const std::string &host);

// The lists of hosts, addresses and ports have one element for each other. Throws DatabaseError
// 08001 when they do not.
std::vector<Host> hosts_of(const AllSettings &all);

} // namespace outbox::v0::detail
