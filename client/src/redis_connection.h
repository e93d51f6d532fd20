// A connection to Redis, whose waits end in time.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <hiredis/hiredis.h>

#include "name_service.h"
#include "outbox/redis_dedup_store.h"
#include "stop_budget.h"

namespace outbox::v0::detail
{

using RedisReply = std::unique_ptr<redisReply, decltype(&freeReplyObject)>;

// Connects when it is first needed, and after each error. hiredis alone would wait for each read
// anew, and no stop would end that.
class RedisConnection
{
public:
    explicit RedisConnection(const RedisOptions &options);

    // From now on a stop leaves its waits a part of this budget; null: there is none.
    void limit_by(const StopBudget *budget) { budget_ = budget; }

    // Runs a command and returns its answer. After an error of the connection the outcome is
    // unknown, and the next command connects anew. Throws StoreError.
    RedisReply command(const std::vector<std::string> &words);

private:
    using Clock = StopBudget::Clock;
    using Context = std::unique_ptr<redisContext, decltype(&redisFree)>;

    Clock::time_point limit() const { return Clock::now() + options_.timeout; }
    Clock::time_point capped(Clock::time_point deadline) const;
    bool wait(short events, Clock::time_point deadline) const;
    std::vector<std::string> addresses();
    void connect();
    void connect_to(Context context);
    RedisReply send(const std::vector<std::string> &words);
    void flush(Clock::time_point deadline);
    RedisReply receive(Clock::time_point deadline);
    [[noreturn]] void fail_connection();
    [[noreturn]] void fail(const std::string &why);

    const RedisOptions &options_;
    const StopBudget *budget_ = nullptr;
    NameService names_;
    Context context_;
};

} // namespace outbox::v0::detail
