// The threads of a process, as the kernel tells of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

namespace outbox::test
{

// Their numbers. `process`: "self", or a number.
inline std::set<std::string>
threads(const std::string &process = "self")
{
    std::set<std::string> ids;
    for (const auto &entry : std::filesystem::directory_iterator("/proc/" + process + "/task"))
        ids.insert(entry.path().filename());
    return ids;
}

// Those of this process that are not among `before`. Some of those may end meanwhile: the ones of
// an earlier test, of which librdkafka and libnats do not say when.
inline std::set<std::string>
threads_besides(const std::set<std::string> &before)
{
    std::set<std::string> besides = threads();
    for (const std::string &id : before)
        besides.erase(id);
    return besides;
}

// The mask of blocked signals of a thread; `if_ended` when it has ended meanwhile.
inline std::uint64_t
blocked_signals(const std::string &thread, std::uint64_t if_ended,
                const std::string &process = "self")
{
    std::ifstream status("/proc/" + process + "/task/" + thread + "/status");
    for (std::string line; std::getline(status, line);)
        if (line.rfind("SigBlk:", 0) == 0)
            return std::stoull(line.substr(7), nullptr, 16);
    return if_ended;
}

} // namespace outbox::test
