// A publisher and whoever listens to it, as the engine would.
#pragma once

#include "bgworker/sinks/amqp/publisher.h"

#include "support/wait.h"

#include <map>
#include <memory>
#include <poll.h>
#include <string>
#include <vector>

namespace outbox::test
{

constexpr Milliseconds kLimit(30000);

struct Given
{
    std::uint64_t tag;
    Failure failure;
};

class AmqpEar final : public SinkListener
{
public:
    void delivered(std::uint64_t tag) noexcept override { acked.push_back(tag); }
    void failed(std::uint64_t tag, const Failure &failure) noexcept override
    {
        refused.push_back({tag, failure});
    }
    void trouble(const Failure &failure) noexcept override { troubles.push_back(failure); }
    void log(int, const char *, const char *) noexcept override {}

    bool has_trouble(const std::string &text) const
    {
        for (const Failure &failure : troubles)
            if ((std::string(failure.name) + ": " + failure.text).find(text) != std::string::npos)
                return true;
        return false;
    }

    std::vector<std::uint64_t> acked;
    std::vector<Given> refused;
    std::vector<Failure> troubles;
};

class AmqpDriver
{
public:
    explicit AmqpDriver(const amqp::Settings &settings);
    ~AmqpDriver();

    amqp::Publisher &publisher() { return *publisher_; }
    AmqpEar &ear() { return ear_; }
    // Tags are given in turn, from 1. Body and event id are the tag unless said otherwise.
    std::uint64_t produce(const std::string &routing_key, const std::string &key,
                          const std::string &body = "");
    template <class Condition> bool serve_until(Condition &&condition, Milliseconds limit = kLimit)
    {
        return wait_until(limit,
                          [&]
                          {
                              (void) publisher_->serve(ear_, 1000);
                              return condition();
                          });
    }
    // Waits for what the publisher asks for only, as the engine does.
    template <class Condition>
    bool serve_when_woken_until(Condition &&condition, Milliseconds limit = kLimit)
    {
        int due_ms = -1;
        return wait_until(limit,
                          [&]
                          {
                              pollfd fd = {wake_fd_, POLLIN, 0};
                              due_ms = due_ms < 0 ? due_ms : due_ms - kStepMs;
                              if (poll(&fd, 1, kStepMs) > 0 || (due_ms < 0 && has_due_))
                              {
                                  (void) publisher_->serve(ear_, 1000);
                                  due_ms = publisher_->serve_within_ms();
                                  has_due_ = due_ms >= 0;
                              }
                              return condition();
                          });
    }
    bool serve_until_settled(Milliseconds limit = kLimit)
    {
        return serve_until([&] { return publisher_->outstanding() == 0; }, limit);
    }
    bool serve_until_trouble(const std::string &text)
    {
        return serve_until([&] { return ear_.has_trouble(text); });
    }

private:
    static constexpr int kStepMs = 20;

    const int wake_fd_;
    bool has_due_ = false;
    std::unique_ptr<amqp::Publisher> publisher_;
    AmqpEar ear_;
    std::uint64_t tag_ = 0;
};

// Settings with short pauses.
amqp::Settings settings_for(int port, const std::string &exchange);

} // namespace outbox::test
