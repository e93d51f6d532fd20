#include "redis_connection.h"

#include "connect.h"
#include "outbox/error.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

namespace outbox::v0::detail
{

namespace
{

using Milliseconds = std::chrono::milliseconds;

constexpr const char *kSilent = "it takes too long";

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

// Of a connection that was begun; 0 if it is there.
int
error_of(int socket)
{
    int error = 0;
    socklen_t size = sizeof error;
    return getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

} // namespace

RedisConnection::RedisConnection(const RedisOptions &options)
    : options_(options), context_(nullptr, &redisFree)
{
}

// The group has to be left as well.
RedisConnection::Clock::time_point
RedisConnection::capped(Clock::time_point deadline) const
{
    constexpr int kPercent = 50;
    return budget_ == nullptr ? deadline : budget_->cap(deadline, kPercent);
}

// Whether the socket is ready before the deadline, or the one that a stop sets.
bool
RedisConnection::wait(short events, Clock::time_point deadline) const
{
    for (;;)
    {
        pollfd socket = {context_->fd, events, 0};
        if (poll(&socket, 1, 0) > 0)
            return true;
        const auto left =
            std::chrono::duration_cast<Milliseconds>(capped(deadline) - Clock::now()).count();
        if (left <= 0)
            return false;
        wait_for_socket(context_->fd, events, static_cast<int>(left),
                        budget_ == nullptr ? nullptr : budget_->awaited());
    }
}

RedisReply
RedisConnection::command(const std::vector<std::string> &words)
{
    const SigpipeBlocked blocked;
    if (!context_)
        connect();
    return send(words);
}

// hiredis would wait for the name service without a limit.
std::vector<std::string>
RedisConnection::addresses()
{
    const Clock::time_point deadline = limit();
    for (;;)
    {
        std::string why;
        try
        {
            std::vector<std::string> found =
                names_.addresses(options_.host, capped(deadline),
                                 budget_ == nullptr ? nullptr : budget_->awaited(), &why);
            if (found.empty())
                fail(why);
            return found;
        }
        catch (const Stopped &)
        {
            // From now on with what the stop leaves.
        }
    }
}

void
RedisConnection::connect()
{
    if (!options_.unix_socket.empty())
        connect_to({redisConnectUnixNonBlock(options_.unix_socket.c_str()), &redisFree});
    else
    {
        // To the first address that takes connections.
        const std::vector<std::string> all = addresses();
        for (std::size_t i = 0; !context_; ++i)
            try
            {
                connect_to({redisConnectNonBlock(all[i].c_str(), options_.port), &redisFree});
            }
            catch (const StoreError &)
            {
                if (i + 1 == all.size())
                    throw;
            }
    }
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

// Waits for the connection that was begun.
void
RedisConnection::connect_to(Context context)
{
    if (!context)
        throw std::bad_alloc();
    context_ = std::move(context);
    if (context_->err != 0)
        fail_connection();
    if (!wait(POLLOUT, limit()))
        fail(kSilent);
    if (const int error = error_of(context_->fd))
        fail(std::strerror(error));
}

RedisReply
RedisConnection::send(const std::vector<std::string> &words)
{
    std::vector<const char *> texts;
    std::vector<std::size_t> sizes;
    for (const std::string &word : words)
    {
        texts.push_back(word.data());
        sizes.push_back(word.size());
    }
    const Clock::time_point deadline = limit();
    if (redisAppendCommandArgv(context_.get(), static_cast<int>(words.size()), texts.data(),
                               sizes.data()) != REDIS_OK)
        fail_connection();
    flush(deadline);
    RedisReply reply = receive(deadline);
    if (reply->type == REDIS_REPLY_ERROR)
    {
        // Who has become a replica, or is loading, stays so for this connection; another one
        // may find the primary.
        context_.reset();
        throw StoreError(
            "Redis refuses " + words.front() + ": " + std::string(reply->str, reply->len), "58000");
    }
    return reply;
}

void
RedisConnection::flush(Clock::time_point deadline)
{
    for (int done = 0; done == 0;)
    {
        if (redisBufferWrite(context_.get(), &done) != REDIS_OK)
            fail_connection();
        if (done == 0 && !wait(POLLOUT, deadline))
            fail(kSilent);
    }
}

RedisReply
RedisConnection::receive(Clock::time_point deadline)
{
    for (;;)
    {
        void *reply = nullptr;
        if (redisGetReplyFromReader(context_.get(), &reply) != REDIS_OK)
            fail_connection();
        if (reply != nullptr)
            return {static_cast<redisReply *>(reply), &freeReplyObject};
        // Also one that always has more to say, and never comes to its end.
        if (Clock::now() >= capped(deadline) || !wait(POLLIN, deadline))
            fail(kSilent);
        if (redisBufferRead(context_.get()) != REDIS_OK)
            fail_connection();
    }
}

void
RedisConnection::fail_connection()
{
    fail(context_->errstr);
}

void
RedisConnection::fail(const std::string &why)
{
    const std::string text = "no answer from Redis: " + why;
    context_.reset();
    throw StoreError(text, "08006");
}

} // namespace outbox::v0::detail
