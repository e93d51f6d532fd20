// A dedup store in Redis, for consumers whose effect is not in PostgreSQL.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "dedup_store.h"
#include "export.h"

namespace outbox
{
inline namespace v0
{

namespace detail
{
class StopBudget;
}

struct RedisOptions
{
    std::string host = "127.0.0.1";
    int port = 6379;
    std::string unix_socket; // instead of host and port
    std::string username;    // empty: Redis's default user
    std::string password;    // empty: none; without a user no AUTH either
    int database = 0;
    std::string prefix = "outbox:"; // of keys: <prefix><consumer>:<event id>

    // For how long a processed event is remembered, and how long after its first delivery it may
    // come again: the topic's retention, or as far back as anybody rewinds or replays. A ttl
    // shorter than that is refused, because an event that comes later would have its effect twice;
    // so is one of over a hundred years.
    std::chrono::milliseconds ttl{};
    std::chrono::milliseconds replay_window{};

    // For how long an event stays claimed by a process that died with it in hand. Longer than any
    // handler takes: when it is over, another consumer may begin with the same event.
    std::chrono::milliseconds lease{60000};

    // Of the name service, of connecting to each address, of each command. When the Consumer is to
    // end, half of its close_timeout for all of them, if that is less.
    std::chrono::milliseconds timeout{5000};
};

// Claims by SET key NX PX lease before the effect; writes "done" with the ttl after it; deletes the
// key when the handler has failed.
//
// What it promises: an event that was processed is left out for `ttl`, and two consumers do not
// process the same event at the same time, as long as the handler takes less than `lease`.
// What it cannot promise, because the effect and the mark are in two systems:
//   - a process that dies after the effect and before the mark repeats the effect;
//   - a Redis that loses data (no append-only file, a failover to a replica that is behind, keys
//     evicted under another maxmemory-policy than noeviction) forgets marks and claims with it:
//     what comes again then is done again, but nothing is left out.
// So the effect should stand being repeated, now and then.
//
// An object serves one Consumer. It connects when it is first used, whenever the connection is
// gone, and after Redis has refused a command, as one does that is a replica now: let host be a
// name that follows the primary. Functions throw StoreError. There is no TLS.
class OUTBOX_API RedisDedupStore : public DedupStore
{
public:
    // Throws UsageError for a ttl shorter than the replay window or the lease, and for times that
    // are not positive.
    explicit RedisDedupStore(RedisOptions options);
    ~RedisDedupStore() override;

    bool transactional() const noexcept override { return false; }
    Claim claim(PGconn *transaction, const std::string &consumer,
                const std::string &event_id) override;
    bool confirm(const std::string &consumer, const std::string &event_id) override;
    void release(const std::string &consumer, const std::string &event_id) override;

private:
    friend class Consumer;
    class OUTBOX_LOCAL Connection;

    // null: without a limit of its own again
    OUTBOX_LOCAL void limit_by(const detail::StopBudget *budget);
    std::string key(const std::string &consumer, const std::string &event_id) const;

    const RedisOptions options_;
    const std::string mark_; // value of the keys that this object has claimed
    std::unique_ptr<Connection> connection_;
};

} // namespace v0
} // namespace outbox
