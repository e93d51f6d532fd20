// A real Redis of a test.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "outbox/redis_dedup_store.h"
#include "support/process.h"

namespace outbox::test
{

// On a free port of 127.0.0.1, with nothing on disk: what it holds ends with it.
class RedisServer
{
public:
    explicit RedisServer(const std::string &password = "");

    // Starts it and waits until it answers.
    void start();
    void kill9() { process_.reset(); }
    // It stands still, or continues.
    void pause() { process_->pause(); }
    void resume() { process_->resume(); }
    // As redis-cli does, without a password. Throws if Redis does not take it.
    void command(const std::vector<std::string> &words) const;
    int port() const { return port_; }

    // For this server, with a ttl of ten minutes and a replay window of five.
    outbox::RedisOptions options() const;

private:
    const int port_;
    const std::string password_;
    std::unique_ptr<Process> process_;
};

} // namespace outbox::test
