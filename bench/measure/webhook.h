// Webhooks: how fast a backlog gets to an endpoint, and how soon after its commit an event does,
// beside bare requests.
#pragma once

#include <vector>

#include <nlohmann/json.hpp>

#include "bench/support/servers.h"

namespace outbox::bench
{

struct WebhookOptions
{
    int events = 200000;
    int at_once = 64; // the option max_in_flight
    int rate = 200;   // events a second, for the latency
    int seconds = 10;
};

// One entry for each round; milliseconds are medians of the round.
struct WebhookResult
{
    WebhookOptions options;
    std::vector<double> bare;       // requests a second
    std::vector<double> relay;      // the same
    std::vector<double> bare_ms;    // from just before a request until the endpoint has it
    std::vector<double> relay_ms;   // from just before COMMIT until the endpoint has the event
    std::vector<double> commit_ms;  // the COMMIT of these
    std::vector<double> cpu_micros; // of the relay's process for an event of the backlog
};

WebhookResult measure_webhook(Servers &servers, const WebhookOptions &options, int rounds);

nlohmann::ordered_json to_json(const WebhookResult &result);

} // namespace outbox::bench
