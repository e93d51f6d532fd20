// Addresses of hosts, with a wait that ends.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "stop_flag.h"

namespace outbox::v0::detail
{

// getaddrinfo() takes as long as the name service lets it. So a name is looked up in a thread,
// which is left to itself when it takes too long; whoever asks for that name again waits for the
// same thread, so that there are never more of them than names.
class NameService
{
public:
    using Clock = std::chrono::steady_clock;

    // Begins to look up, unless that is under way. Throws std::system_error.
    void begin(const std::string &host);

    // The host's numeric addresses, in the order of preference. None, and why, if there are none or
    // there is no answer before the deadline. Throws Stopped when `stop`, if any, is raised, and
    // what begin() throws.
    std::vector<std::string> addresses(const std::string &host, Clock::time_point deadline,
                                       const StopFlag *stop, std::string *why);

private:
    struct Lookup;

    std::map<std::string, std::shared_ptr<Lookup>> lookups_;
};

} // namespace outbox::v0::detail
