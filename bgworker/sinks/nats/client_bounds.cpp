// What bounds the time and the memory that a server can take.
#include "client.h"

#include <nats/nats.h>

#include "extension/core/steady.h"

#include <algorithm>
#include <cstring>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

namespace outbox::nats
{

void
Client::attach(int descriptor) noexcept
{
    descriptor_ = descriptor;
    if (descriptor >= 0)
        lifeline_.watch(descriptor);
}

// From 3.9.2 on libnats leaves its descriptor to the loop, to be closed when nobody waits for it;
// it may say so from a thread of its own. Earlier ones close it themselves.
void
Client::stop_reading() noexcept
{
#if NATS_VERSION_NUMBER >= 0x030902
    left_ = descriptor_;
#endif
}

void
Client::close_left() noexcept
{
    if (left_ >= 0)
        (void) ::close(std::exchange(left_, -1));
}

// A server may say anything, and as much as the network carries. Three things bound that.
//
// libnats answers pings and keeps errors and announcements to be told, however many come: besides
// messages a server has little to say, some of it for each message that it was sent.
//
// Messages are delivered by a thread of libnats's, which keeps them as long as that does not come
// to it: no more is read meanwhile.
//
// Messages that nobody asked for are no trouble, as they need not be the server's: it is only read
// slowly when there are very many.

namespace
{

constexpr std::int64_t kMostTalk = std::int64_t{128} * 1024;   // at once
constexpr std::int64_t kTalkOfSecond = 1024;                   // more
constexpr std::int64_t kTalkOfMessage = 128;                   // more, and its subject, in an error
constexpr std::int64_t kMostExpected = std::int64_t{16} << 20; // of all messages
constexpr std::int64_t kMostUncounted = std::int64_t{64} * 1024;
constexpr std::int64_t kMostUndelivered = std::int64_t{256} * 1024;
constexpr std::int64_t kMostUnasked = std::int64_t{16} << 20; // at once
constexpr std::int64_t kUnaskedOfSecond = std::int64_t{4} << 20;
constexpr std::int64_t kWorkOfUnasked = 200; // that one is, however short, in bytes
constexpr int kMostAtOnce = 32 * 1024;       // as libnats reads
constexpr std::int64_t kSecondUs = 1000000;
// What a message has around it: names, sizes, TLS.
constexpr std::int64_t kFrame = 96;

} // namespace

void
Client::begin_count() noexcept
{
    said_bytes_ = 0;
    message_bytes_ = 0;
    talk_ = kMostTalk;
    talk_since_ = steady_now();
    undelivered_bytes_ = 0;
    unasked_ = kMostUnasked;
    unasked_since_ = steady_now();
    is_flooded_ = false;
}

// That it must not be sent, for each message.
void
Client::expect_talk(const char *subject) noexcept
{
    const auto size = static_cast<std::int64_t>(subject != nullptr ? std::strlen(subject) : 0);
    talk_ = std::max(talk_, std::min(talk_ + size + kTalkOfMessage, kMostExpected));
}

void
Client::read() noexcept
{
    const Lifeline::Held held(lifeline_);
    int waiting = 0;
    if (::ioctl(descriptor_, FIONREAD, &waiting) == 0)
        waiting = std::min(waiting, kMostAtOnce);
    said_bytes_ += waiting;
    undelivered_bytes_ += waiting;
    unasked_ -= waiting;
    natsConnection_ProcessReadEvent(connection_);
    if (said_bytes_ > kMostUncounted)
        count_said();
}

int
Client::rest_ms() noexcept
{
    constexpr int kDeliveryMs = 10; // whoever has got a message wakes the thread before
    if (undelivered_bytes_ > kMostUndelivered)
    {
        if (has_undelivered())
            return kDeliveryMs;
        undelivered_bytes_ = 0;
    }
    const std::int64_t now = steady_now();
    const std::int64_t passed = std::min(now - std::exchange(unasked_since_, now), 4 * kSecondUs);
    unasked_ = std::min(unasked_ + passed * kUnaskedOfSecond / kSecondUs, kMostUnasked);
    return unasked_ > 0 ? 0 : static_cast<int>(1 - unasked_ * 1000 / kUnaskedOfSecond);
}

void
Client::note_answer(std::size_t size) noexcept
{
    unasked_ += frame() + static_cast<std::int64_t>(size);
}

void
Client::note_unasked() noexcept
{
    unasked_ -= kWorkOfUnasked;
}

std::int64_t
Client::frame() const noexcept
{
    return kFrame + static_cast<std::int64_t>(inbox_.size());
}

bool
Client::has_undelivered() const noexcept
{
    int messages = 0;
    return natsSubscription_GetPending(subscription_, &messages, nullptr) == NATS_OK &&
           messages > 0;
}

void
Client::write() noexcept
{
    const Lifeline::Held held(lifeline_);
    if (wants_to_write_ && is_connected())
        natsConnection_ProcessWriteEvent(connection_);
}

// Takes what was said besides messages from what may be.
void
Client::count_said() noexcept
{
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
    if ((statistics_ == nullptr && natsStatistics_Create(&statistics_) != NATS_OK) ||
        natsConnection_GetStats(connection_, statistics_) != NATS_OK ||
        natsStatistics_GetCounts(statistics_, &messages, &bytes, nullptr, nullptr, nullptr) !=
            NATS_OK)
        return;
    const std::int64_t all =
        static_cast<std::int64_t>(bytes) + static_cast<std::int64_t>(messages) * frame();
    const std::int64_t talk = said_bytes_ - (all - std::exchange(message_bytes_, all));
    said_bytes_ = 0;
    const std::int64_t now = steady_now();
    const std::int64_t more = (now - std::exchange(talk_since_, now)) * kTalkOfSecond / kSecondUs;
    // Less than nothing is the rest of a message that had begun before.
    talk_ = std::min(talk_ + more - talk, std::max(talk_, kMostTalk));
    is_flooded_ = is_flooded_ || talk_ < 0;
}

} // namespace outbox::nats
