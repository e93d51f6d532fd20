#include "webhook.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <thread>
#include <unordered_map>

#include <fmt/format.h>

#include "bench/peers/bare_webhook.h"
#include "bench/support/backlog.h"
#include "bench/support/inputs.h"
#include "bench/support/process_usage.h"
#include "bench/support/samples.h"
#include "bench/support/webhook_receiver.h"
#include "drain.h"
#include "support/wait.h"
#include "support/workspace.h"

namespace outbox::bench
{

namespace
{

using SteadyTime = WebhookReceiver::Time;

constexpr auto kLimit = std::chrono::seconds(300);

SteadyTime
steady_now()
{
    return std::chrono::steady_clock::now();
}

double
milliseconds(SteadyTime from, SteadyTime to)
{
    return std::chrono::duration<double, std::milli>(to - from).count();
}

double
rate_of(const WebhookReceiver &receiver)
{
    return static_cast<double>(receiver.count() - 1) * 1000 /
           milliseconds(receiver.first(), receiver.last());
}

void
wait_for(const WebhookReceiver &receiver, int events)
{
    if (!test::wait_until(kLimit, [&] { return receiver.count() >= events; }))
        throw std::runtime_error("the events did not arrive");
}

std::string
secret_file()
{
    const auto path = test::run_dir() / "webhook-secret";
    test::write_file(path, "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3\n");
    test::give_to_server_user(path);
    return path.string();
}

void
subscribe(test::Db &db, const std::string &url, int at_once, const std::string &start)
{
    db.exec("select outbox.create_subscription('hook', 'webhook', jsonb_build_object('url', "
            "$1::text, 'secret_file', $2::text, 'max_in_flight', $3::int), start => $4)",
            url, secret_file(), at_once, start);
}

// Of all events that a backlog has.
void
drain(Servers &servers, int round, WebhookReceiver &receiver, WebhookResult &result)
{
    const WebhookOptions &options = result.options;
    receiver.reset();
    send_bare(receiver.url(), options.events, options.at_once);
    result.bare.push_back(rate_of(receiver));
    Database database(servers, fmt::format("webhook_{}", round));
    fill_events(database, options.events);
    test::Db db = database.connect();
    receiver.reset();
    subscribe(db, receiver.url(), options.at_once, "retained");
    wait_for(receiver, options.events);
    result.relay.push_back(rate_of(receiver));
    const auto pid = static_cast<pid_t>(
        std::stol(db.value("select pid from outbox.subscription_status where name = 'hook'")));
    result.cpu_micros.push_back(cpu_seconds(pid) * 1e6 / options.events);
    if (receiver.count() != options.events)
        throw std::runtime_error("events arrived twice");
}

// Calls act(key) `rate` times a second, and returns the median of what the keys took to arrive.
template <typename Act>
double
paced(const WebhookOptions &options, WebhookReceiver &receiver, Act act)
{
    receiver.reset();
    const int count = options.rate * options.seconds;
    const SteadyTime began = steady_now();
    std::unordered_map<std::string, SteadyTime> sent;
    for (int number = 0; number < count; number++)
    {
        std::this_thread::sleep_until(
            began + std::chrono::microseconds(std::int64_t{1000000} * number / options.rate));
        const std::string key = std::to_string(number);
        sent[key] = act(key);
    }
    wait_for(receiver, count);
    std::vector<double> took;
    for (const auto &[key, at] : receiver.arrivals())
        took.push_back(milliseconds(sent.at(key), at));
    return percentile(took, 0.5);
}

void
latency(Servers &servers, int round, WebhookReceiver &receiver, WebhookResult &result)
{
    const WebhookOptions &options = result.options;
    const std::string &payload = inputs()[0].payload;
    BareWebhook bare(receiver.url());
    result.bare_ms.push_back(paced(options, receiver,
                                   [&](const std::string &key)
                                   {
                                       const SteadyTime before = steady_now();
                                       bare.send(key, payload);
                                       return before;
                                   }));
    Database database(servers, fmt::format("webhook_latency_{}", round));
    test::Db db = database.connect();
    subscribe(db, receiver.url(), options.at_once, "now");
    receiver.reset();
    db.exec("select outbox.emit('bench', 'warm', 'order.placed', '{}')");
    wait_for(receiver, 1);
    std::vector<double> commits;
    result.relay_ms.push_back(paced(options, receiver,
                                    [&](const std::string &key)
                                    {
                                        db.exec("begin");
                                        db.exec("select outbox.emit('bench', $1, 'order.placed', "
                                                "$2::jsonb)",
                                                key, payload);
                                        const SteadyTime before = steady_now();
                                        db.exec("commit");
                                        commits.push_back(milliseconds(before, steady_now()));
                                        return before;
                                    }));
    result.commit_ms.push_back(percentile(commits, 0.5));
}

} // namespace

WebhookResult
measure_webhook(Servers &servers, const WebhookOptions &options, int rounds)
{
    std::cerr << "webhook ...\n";
    WebhookResult result;
    result.options = options;
    WebhookReceiver receiver;
    for (int round = 1; round <= rounds; round++)
    {
        drain(servers, round, receiver, result);
        latency(servers, round, receiver, result);
        std::cerr << fmt::format("  bare {:.0f}/s, relay {:.0f}/s; bare {:.3f} ms, relay {:.3f} ms "
                                 "of which the commit {:.3f}; {:.1f} us of the relay's process\n",
                                 result.bare.back(), result.relay.back(), result.bare_ms.back(),
                                 result.relay_ms.back(), result.commit_ms.back(),
                                 result.cpu_micros.back());
    }
    return result;
}

nlohmann::ordered_json
to_json(const WebhookResult &result)
{
    return {{"events", result.options.events}, {"at_once", result.options.at_once},
            {"rate", result.options.rate},     {"seconds", result.options.seconds},
            {"bare_per_second", result.bare},  {"relay_per_second", result.relay},
            {"bare_ms", result.bare_ms},       {"relay_ms", result.relay_ms},
            {"commit_ms", result.commit_ms},   {"cpu_microseconds", result.cpu_micros}};
}

} // namespace outbox::bench
