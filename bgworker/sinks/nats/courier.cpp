#include "courier.h"

#include "extension/core/steady.h"

#include <nats/nats.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <poll.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

namespace outbox::nats
{

namespace
{

// How many are sent before the socket is written to, and before the lock is free for a moment.
constexpr int kBatch = 64;
constexpr int kBatchBytes = 256 * 1024;

std::int64_t
milliseconds() noexcept
{
    return steady_now() / 1000;
}

FlightRules
rules_of(const Settings &settings, int patience_ms) noexcept
{
    FlightRules rules;
    rules.timeout_ms = static_cast<int>(settings.timeout_ms);
    rules.patience_ms = patience_ms;
    rules.backoff_initial_ms = settings.backoff_initial_ms;
    rules.backoff_max_ms = settings.backoff_max_ms;
    return rules;
}

} // namespace

Courier::Courier(const Settings &settings, std::string inbox, const Manner &manner, int wake_fd)
    : settings_(settings), manner_(manner), inbox_(std::move(inbox)), listener_(announce(*this)),
      flights_(rules_of(settings, manner.patience_ms), *this), wake_fd_(wake_fd),
      own_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), client_(settings_, inbox_, listener_),
      asked_at_(milliseconds() - kAskAgainMs), random_(static_cast<std::uint64_t>(steady_now()))
{
}

Courier::~Courier()
{
    release(listener_);
    flights_.give_up_all(Failure());
    drop_all();
    if (own_fd_ >= 0)
        (void) ::close(own_fd_);
}

void
Courier::run() noexcept
{
    try
    {
        while (!stopping_ && !is_dead_)
            work();
    }
    catch (const std::exception &)
    {
        // What it has is given up: another sink gets it.
        is_dead_ = true;
        is_well_ = false;
        const std::lock_guard<std::mutex> flights_lock(flights_mutex_);
        Failure failure;
        set_failure(failure, FailureClass::retriable, "NO_MEMORY", "there was no memory");
        failure.consequence = true;
        flights_.give_up_all(failure);
    }
    client_.disconnect();
    tell();
}

void
Courier::work()
{
    now_ = milliseconds();
    if (!client_.is_connected())
        connect();
    if (wait())
        read();
    now_ = milliseconds();
    take_in();
    watch();
    send();
    tell();
}

// Over TLS libnats comes back when there is something in it for libnats: not as long as a server
// sends what is of TLS itself, such as new keys. Whoever waits for nothing is told to look.
void
Courier::read()
{
    if (settings_.tls)
    {
        is_reading_ = true;
        const std::lock_guard<std::mutex> lock(mutex_);
        if (wake_fd_ >= 0)
            (void) eventfd_write(wake_fd_, 1);
    }
    client_.read();
    is_reading_ = false;
}

// As long as there is trouble, its pauses count.
void
Courier::connect()
{
    {
        const std::lock_guard<std::mutex> lock(flights_mutex_);
        if (flights_.is_in_trouble() && now_ < flights_.retry_at())
            return;
    }
    Failure why;
    no_answers_.clear();
    const bool connected = client_.connect(why);
    now_ = connected_at_ = milliseconds();
    is_outage_ = false;
    if (!connected)
        return note_trouble(why);
    const std::lock_guard<std::mutex> lock(flights_mutex_);
    flights_.recovered();
    is_well_ = !flights_.is_in_trouble();
}

void
Courier::note_trouble(const Failure &failure)
{
    const std::lock_guard<std::mutex> lock(flights_mutex_);
    flights_.trouble(now_, random());
    tell_trouble(failure, flights_.retry_at());
}

// Until there is something to read or to write, or somebody wakes the thread, or a time is over.
// Returns whether there is something to read: over TLS libnats waits for it.
bool
Courier::wait()
{
    std::int64_t due = 0;
    {
        const std::lock_guard<std::mutex> lock(flights_mutex_);
        due = client_.is_connected() ? flights_.due() : flights_.retry_at();
    }
    const std::int64_t pause = std::max<std::int64_t>(std::min<std::int64_t>(due - now_, 60000), 0);
    const int rest_ms = client_.is_connected() ? client_.rest_ms() : 0;
    pollfd fds[2] = {{own_fd_, POLLIN, 0}, {client_.descriptor(), POLLIN, 0}};
    if (rest_ms > 0)
        fds[1].events = 0;
    if (client_.wants_to_write())
        fds[1].events |= POLLOUT;
    // An interruption only makes it look sooner.
    (void) ::poll(fds, fds[1].fd >= 0 && fds[1].events != 0 ? 2 : 1,
                  static_cast<int>(rest_ms > 0 ? std::min<std::int64_t>(pause, rest_ms) : pause));
    eventfd_t count = 0;
    if ((fds[0].revents & POLLIN) != 0)
        (void) eventfd_read(own_fd_, &count);
    if ((fds[1].revents & POLLOUT) != 0)
        client_.write();
    return rest_ms == 0 && client_.is_connected() && (fds[1].revents & ~POLLOUT) != 0;
}

void
Courier::take_in()
{
    const std::lock_guard<std::mutex> flights_lock(flights_mutex_);
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        new_answers_.swap(answers_);
        new_prohibitions_.swap(prohibitions_);
    }
    for (natsMsg *&message : new_answers_)
    {
        hear_answer(message);
        natsMsg_Destroy(std::exchange(message, nullptr));
    }
    new_answers_.clear();
    for (const std::string &text : new_prohibitions_)
        hear_prohibition(text);
    new_prohibitions_.clear();
    take_parcels();
}

// False when there is no more to send, or it cannot be sent just now.
bool
Courier::send_one()
{
    constexpr std::int64_t kSureMs = 1000;
    const Parcel *parcel = flights_.next(now_);
    if (parcel == nullptr)
        return false;
    switch (client_.publish(static_cast<natsMsg *>(parcel->message)))
    {
    case Client::Published::done:
        return true;
    case Client::Published::too_large:
        renew_ = manner_.renews_limit && now_ - connected_at_ > kSureMs;
        if (renew_)
            return false;
        flights_.refused(parcel->token, judge_too_large(parcel->subject, client_.max_payload()),
                         now_, random());
        return true;
    case Client::Published::no_memory:
        throw std::bad_alloc();
    case Client::Published::lost:
        break;
    }
    return false;
}

void
Courier::send()
{
    for (bool more = true; more && client_.is_connected() && !stopping_;)
    {
        {
            const std::lock_guard<std::mutex> lock(flights_mutex_);
            for (int i = 0; i < kBatch && more && client_.buffered() < kBatchBytes; i++)
                more = send_one();
            if (std::exchange(renew_, false))
            {
                client_.disconnect();
                flights_.disconnected();
                return wake();
            }
        }
        client_.write();
        // The rest when the socket takes more.
        if (client_.wants_to_write())
            return;
    }
}

void
Courier::watch()
{
    bool silent = false;
    if (client_.is_connected())
    {
        const std::lock_guard<std::mutex> lock(flights_mutex_);
        silent = !flights_.watch(now_, random());
        if (flights_.size() == 0 && now_ >= flights_.retry_at())
            flights_.recovered();
        is_well_ = !flights_.is_in_trouble();
    }
    if (!silent && !client_.is_closed() && !client_.is_flooded())
        return;
    Failure why;
    if (client_.is_flooded())
        set_failure(why, FailureClass::retriable, "PROTOCOL",
                    "the server sends more than it has to, besides messages");
    else if (!silent)
        client_.describe_end(why);
    else if (!no_answers_.empty())
        set_failure(why, FailureClass::retriable, "NOT_PERMITTED", "no answer can arrive: %s",
                    no_answers_.c_str());
    else
        set_failure(why, FailureClass::retriable, "NO_ANSWER",
                    "the server has not answered for %lld ms",
                    static_cast<long long>(settings_.timeout_ms));
    note_end(why);
}

// A server ends the connection of who sends what it cannot take. It does not say what that was, so
// what was under way goes out one by one.
void
Courier::note_end(const Failure &why)
{
    client_.disconnect();
    {
        const std::lock_guard<std::mutex> lock(flights_mutex_);
        if (::strcasestr(why.text, "maximum payload") != nullptr ||
            ::strcasestr(why.text, "maximum control line") != nullptr)
        {
            if (const Parcel *alone = flights_.alone())
            {
                Judgement judgement;
                judgement.reach = Reach::event;
                set_failure(judgement.failure, FailureClass::event, "PROTOCOL", "%s", why.text);
                judgement.failure.too_large = true;
                flights_.refused(alone->token, judgement, now_, random());
            }
            flights_.isolate();
        }
        flights_.disconnected();
    }
    note_trouble(why);
}

// Connecting has two times for each server, the second of them for TLS.
bool
Courier::break_off_if_held() noexcept
{
    const std::int64_t timeout_us = settings_.timeout_ms * 1000;
    const auto times = static_cast<std::int64_t>(2 * settings_.servers.size());
    return client_.lifeline().cut_if_held(is_reading_ ? timeout_us : times * timeout_us,
                                          timeout_us);
}

// For jitter only.
std::uint64_t
Courier::random() noexcept
{
    random_ = random_ * 6364136223846793005U + 1442695040888963407U;
    return random_ >> 20;
}

} // namespace outbox::nats
