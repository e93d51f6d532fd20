// Reading what a part measured from its figures.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/support/samples.h"

namespace outbox::bench
{

using Json = nlohmann::ordered_json;

// The number `key` of each of a list's objects.
inline Spread
spread_over(const Json &runs, const char *key)
{
    std::vector<double> values;
    for (const Json &run : runs)
        values.push_back(run.at(key).get<double>());
    return spread_of(values);
}

// The same for a million events of each run.
inline double
per_million(const Json &runs, const char *key)
{
    std::vector<double> values;
    for (const Json &run : runs)
        values.push_back(run.at(key).get<double>() / run.at("events").get<double>() * 1e6);
    return spread_of(values).median;
}

inline double
largest(const Json &runs, const char *key)
{
    return spread_over(runs, key).high;
}

// Of a plain list of numbers.
inline Spread
spread_over(const Json &numbers)
{
    return spread_of(numbers.get<std::vector<double>>());
}

// A contender of the drain or of one rate of the latency, and its figures.
struct Named
{
    std::string title;
    const Json *figures;
};

inline std::vector<Named>
drain_contenders(const Json &drain)
{
    std::vector<Named> all = {{"bare librdkafka producer", &drain.at("bare")},
                              {"outbox relay", &drain.at("relay")}};
    if (drain.contains("peers"))
        for (const auto &[name, peer] : drain.at("peers").items())
            all.push_back({peer.at("title").get<std::string>(), &peer.at("runs")});
    return all;
}

// Each with its percentiles in milliseconds.
inline std::vector<Named>
latency_contenders(const Json &rate)
{
    std::vector<Named> all = {{"floor: produce to consumer", &rate.at("floor_ms")},
                              {"outbox relay", &rate.at("relay").at("ms")}};
    if (rate.contains("peers"))
        for (const auto &[name, peer] : rate.at("peers").items())
            all.push_back({peer.at("title").get<std::string>(), &peer.at("ms")});
    return all;
}

// A sentence for each peer whose settings are in the figures.
inline std::string
peers_settings(const Json &figures)
{
    std::string text;
    if (figures.contains("peers"))
        for (const auto &[name, peer] : figures.at("peers").items())
            text += peer.at("title").get<std::string>() + ": " +
                    peer.at("settings").get<std::string>() + ".\n\n";
    return text;
}

} // namespace outbox::bench
