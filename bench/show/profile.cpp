#include <fmt/format.h>

#include "show.h"
#include "table.h"

namespace outbox::bench
{

std::string
profile_text(const Json &profile)
{
    std::string text =
        fmt::format("Processor time of the processes that drained {} events, by perf; from 1 % "
                    "on. Sampling takes time itself: the rates are above.\n\n",
                    profile.at("events").get<int64_t>());
    for (const Json &process : profile.at("processes"))
        for (const char *kind : {"threads", "libraries", "functions"})
        {
            Table table({fmt::format("{}: {}", process.at("title").get<std::string>(), kind), "%"});
            for (const Json &share : process.at(kind))
                table.add({share.at("name").get<std::string>(),
                           fmt::format("{:.1f}", share.at("percent").get<double>())});
            text += table.text();
        }
    return text;
}

} // namespace outbox::bench
