// An endpoint that does nothing but answer, as fast as one thread can.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "support/listener.h"

namespace outbox::bench
{

class WebhookReceiver
{
public:
    using Time = std::chrono::steady_clock::time_point;

    WebhookReceiver();
    ~WebhookReceiver();
    WebhookReceiver(const WebhookReceiver &) = delete;
    WebhookReceiver &operator=(const WebhookReceiver &) = delete;

    std::string url() const { return "http://127.0.0.1:" + std::to_string(listener_.port()) + "/"; }
    int64_t count() const { return count_; }
    // Forgets what has come.
    void reset();
    // When the first and the last one came.
    Time first() const;
    Time last() const;
    // When each key, the header outbox-aggregate-id, came last.
    std::unordered_map<std::string, Time> arrivals() const;

private:
    void run();
    bool receive(int client, std::string &bytes);

    const test::Listener listener_;
    int epoll_;
    std::atomic<bool> ended_{false};
    std::atomic<int64_t> count_{0};
    mutable std::mutex mutex_;
    Time first_;
    Time last_;
    std::unordered_map<std::string, Time> arrivals_;
    std::thread thread_;
};

} // namespace outbox::bench
