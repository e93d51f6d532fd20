#include "outbox/redis_dedup_store.h"

#include "name_service.h"
#include "outbox/error.h"
#include "text.h"

#include <climits>
#include <csignal>
#include <optional>
#include <random>

#include <pthread.h>
#include <sys/time.h>

#include <hiredis/hiredis.h>

namespace outbox::v0
{

namespace
{

using Milliseconds = std::chrono::milliseconds;
using Reply = std::unique_ptr<redisReply, decltype(&freeReplyObject)>;

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

// hiredis writes to connections that may be closed without asking for no signal.
class SigpipeBlocked
{
public:
    SigpipeBlocked()
    {
        sigemptyset(&sigpipe_);
        sigaddset(&sigpipe_, SIGPIPE);
        sigset_t pending;
        was_pending_ = sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
        (void) pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_); // fails for bad arguments only
    }
    ~SigpipeBlocked()
    {
        const timespec at_once = {};
        if (!was_pending_)
            while (sigtimedwait(&sigpipe_, nullptr, &at_once) > 0)
                ;
        (void) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    SigpipeBlocked(const SigpipeBlocked &) = delete;
    SigpipeBlocked &operator=(const SigpipeBlocked &) = delete;

private:
    sigset_t sigpipe_{};
    sigset_t before_{};
    bool was_pending_ = false;
};

timeval
to_timeval(Milliseconds time)
{
    timeval value = {};
    value.tv_sec = static_cast<time_t>(time.count() / 1000);
    value.tv_usec = static_cast<suseconds_t>(time.count() % 1000 * 1000);
    return value;
}

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

class RedisDedupStore::Connection
{
public:
    explicit Connection(const RedisOptions &options)
        : options_(options), context_(nullptr, &redisFree)
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

    // Runs a command and returns its answer. After an error of the connection the outcome is
    // unknown, and the next command connects anew.
    Reply command(const std::vector<std::string> &words)
    {
        const SigpipeBlocked blocked;
        if (!context_)
            connect();
        return send(words);
    }

private:
    void connect()
    {
        const timeval timeout = to_timeval(options_.timeout);
        if (!options_.unix_socket.empty())
            context_.reset(redisConnectUnixWithTimeout(options_.unix_socket.c_str(), timeout));
        else
            connect_to_host(timeout);
        if (!context_)
            throw std::bad_alloc();
        if (context_->err != 0 || redisSetTimeout(context_.get(), timeout) != REDIS_OK)
            fail_connection();
        try
        {
            // A user may have no password.
            if (!options_.username.empty())
                (void) send({"AUTH", options_.username, options_.password});
            else if (!options_.password.empty())
                (void) send({"AUTH", options_.password});
            if (options_.database != 0)
                (void) send({"SELECT", std::to_string(options_.database)});
        }
        catch (...)
        {
            context_.reset(); // half set up
            throw;
        }
    }

    // To its first address that takes connections. hiredis would wait for the name service without
    // a limit.
    void connect_to_host(const timeval &timeout)
    {
        std::string why;
        const std::vector<std::string> addresses = names_.addresses(
            options_.host, std::chrono::steady_clock::now() + options_.timeout, nullptr, &why);
        if (addresses.empty())
            throw StoreError("no answer from Redis: " + why, "08006");
        for (const std::string &address : addresses)
        {
            context_.reset(redisConnectWithTimeout(address.c_str(), options_.port, timeout));
            if (context_ && context_->err == 0)
                return;
        }
    }

    Reply send(const std::vector<std::string> &words)
    {
        std::vector<const char *> texts;
        std::vector<std::size_t> sizes;
        for (const std::string &word : words)
        {
            texts.push_back(word.data());
            sizes.push_back(word.size());
        }
        Reply reply(static_cast<redisReply *>(redisCommandArgv(context_.get(),
                                                               static_cast<int>(words.size()),
                                                               texts.data(), sizes.data())),
                    &freeReplyObject);
        if (!reply)
            fail_connection();
        if (reply->type == REDIS_REPLY_ERROR)
        {
            // Who has become a replica, or is loading, stays so for this connection; another one
            // may find the primary.
            context_.reset();
            throw StoreError("Redis refuses " + words.front() + ": " +
                                 std::string(reply->str, reply->len),
                             "58000");
        }
        return reply;
    }

    [[noreturn]] void fail_connection()
    {
        const std::string why = context_->errstr;
        context_.reset();
        throw StoreError("no answer from Redis: " + why, "08006");
    }

    const RedisOptions &options_;
    detail::NameService names_;
    std::string claimed_;
    std::chrono::steady_clock::time_point claimed_at_;
    std::unique_ptr<redisContext, decltype(&redisFree)> context_;
};

RedisDedupStore::RedisDedupStore(RedisOptions options)
    : options_(checked(std::move(options))), mark_(random_mark()),
      connection_(std::make_unique<Connection>(options_))
{
}

RedisDedupStore::~RedisDedupStore() = default;

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
