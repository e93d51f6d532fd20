#include "outbox/redis_dedup_store.h"

#include "outbox/error.h"
#include "redis_connection.h"
#include "text.h"

#include <random>

namespace outbox::v0
{

namespace
{

using Milliseconds = std::chrono::milliseconds;
using Reply = detail::RedisReply;

constexpr const char *kDone = "done";
constexpr Milliseconds kLongest = std::chrono::hours(24 * 36525);

// Each sees and changes the key in one step. KEYS[1] is the key, ARGV[1] our mark.
// Ours already: from an attempt whose answer or release was lost. Answers the value otherwise.
constexpr const char *kClaimAgain = "local v = redis.call('get', KEYS[1]) "
                                    "if v == ARGV[1] then "
                                    "redis.call('pexpire', KEYS[1], ARGV[2]) end "
                                    "return v";
// The effect is made, so it is written down unless somebody else has the event in hand by now, or
// has had it: 2, which is also what is found after an answer that was lost.
constexpr const char *kConfirm = "local v = redis.call('get', KEYS[1]) "
                                 "if v == ARGV[3] then return 2 end "
                                 "if v and v ~= ARGV[1] then return 0 end "
                                 "redis.call('set', KEYS[1], ARGV[3], 'PX', ARGV[2]) return 1";
constexpr const char *kRelease = "if redis.call('get', KEYS[1]) == ARGV[1] then "
                                 "return redis.call('del', KEYS[1]) end return 0";

std::string
random_mark()
{
    std::random_device random;
    std::string mark = "claim:";
    for (int i = 0; i < 4; ++i)
        mark += std::to_string(random()) + (i < 3 ? "-" : "");
    return mark;
}

RedisOptions
checked(RedisOptions options)
{
    if (options.ttl <= Milliseconds(0) || options.replay_window <= Milliseconds(0) ||
        options.lease <= Milliseconds(0) || options.timeout <= Milliseconds(0))
        throw UsageError("ttl, replay_window, lease and timeout must be positive");
    if (options.ttl < options.replay_window)
        throw UsageError("a ttl of " + std::to_string(options.ttl.count()) +
                         " ms is shorter than the replay window of " +
                         std::to_string(options.replay_window.count()) +
                         " ms: an event that comes again after it would have its effect twice");
    if (options.ttl < options.lease)
        throw UsageError("the ttl is shorter than the lease");
    // Redis adds it to the time of day.
    if (options.ttl > kLongest)
        throw UsageError("the ttl is longer than a hundred years");
    if (options.timeout > std::chrono::hours(1))
        throw UsageError("the timeout is longer than an hour");
    if (options.unix_socket.empty())
        detail::require_value("host", options.host);
    if (options.unix_socket.empty() && (options.port < 1 || options.port > 65535))
        throw UsageError("the port is not between 1 and 65535");
    if (options.database < 0)
        throw UsageError("the number of the database is negative");
    return options;
}

} // namespace

class RedisDedupStore::Connection : public detail::RedisConnection
{
public:
    explicit Connection(const RedisOptions &options) : RedisConnection(options), options_(options)
    {
    }

    // Remembers since when an event is ours, if the claim that follows gets it.
    void claimed(const std::string &name)
    {
        claimed_ = name;
        claimed_at_ = std::chrono::steady_clock::now();
    }
    // Whether the lease of the last claim was of this event, and cannot have run out yet.
    bool still_ours(const std::string &name) const
    {
        return claimed_ == name && std::chrono::steady_clock::now() - claimed_at_ < options_.lease;
    }

private:
    const RedisOptions &options_;
    std::string claimed_;
    std::chrono::steady_clock::time_point claimed_at_;
};

RedisDedupStore::RedisDedupStore(RedisOptions options)
    : options_(checked(std::move(options))), mark_(random_mark()),
      connection_(std::make_unique<Connection>(options_))
{
}

RedisDedupStore::~RedisDedupStore() = default;

void
RedisDedupStore::limit_by(const detail::StopBudget *budget)
{
    connection_->limit_by(budget);
}

std::string
RedisDedupStore::key(const std::string &consumer, const std::string &event_id) const
{
    return options_.prefix + consumer + ":" + event_id;
}

Claim
RedisDedupStore::claim(PGconn * /*transaction*/, const std::string &consumer,
                       const std::string &event_id)
{
    const std::string name = key(consumer, event_id);
    const std::string lease = std::to_string(options_.lease.count());
    connection_->claimed(name);
    const Reply set = connection_->command({"SET", name, mark_, "NX", "PX", lease});
    if (set->type == REDIS_REPLY_STATUS)
        return Claim::first;
    const Reply value = connection_->command({"EVAL", kClaimAgain, "1", name, mark_, lease});
    if (value->type != REDIS_REPLY_STRING) // it has just expired
        return Claim::busy;
    const std::string text(value->str, value->len);
    return text == mark_ ? Claim::first : text == kDone ? Claim::repeated : Claim::busy;
}

bool
RedisDedupStore::confirm(const std::string &consumer, const std::string &event_id)
{
    const std::string name = key(consumer, event_id);
    const Reply answer = connection_->command(
        {"EVAL", kConfirm, "1", name, mark_, std::to_string(options_.ttl.count()), kDone});
    if (answer->type != REDIS_REPLY_INTEGER)
        return false;
    // While our lease lasts nobody but we can have written that it is done.
    return answer->integer == 1 || (answer->integer == 2 && connection_->still_ours(name));
}

void
RedisDedupStore::release(const std::string &consumer, const std::string &event_id)
{
    (void) connection_->command({"EVAL", kRelease, "1", key(consumer, event_id), mark_});
}

} // namespace outbox::v0
