// Addresses of hosts, with a wait that ends.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "name_lookup.h"
#include "stop_flag.h"

namespace outbox::v0::detail
{

class NameService
{
public:
    using Clock = NameLookup::Clock;

    // Begins to look up, unless that is under way.
    void begin(const std::string &host);

    // The host's numeric addresses, in the order of preference. None, and why, if there are none or
    // there is no answer before the deadline. Throws Stopped when `stop`, if any, is raised.
    std::vector<std::string> addresses(const std::string &host, Clock::time_point deadline,
                                       const StopFlag *stop, std::string *why);

private:
    std::map<std::string, std::shared_ptr<NameLookup>> lookups_;
};

} // namespace outbox::v0::detail
