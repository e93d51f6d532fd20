// What comes from RabbitMQ.
#include "connection.h"

#include "bytes.h"
#include "library.h"
#include "shown.h"

#include "extension/core/steady.h"

#include <algorithm>
#include <sys/time.h>
#include <utility>

namespace outbox::amqp
{

namespace
{

constexpr amqp_channel_t kChannel = 1;

// Alarms come and go, and each message is confirmed, and comes back before that if no queue gets
// it. Whoever says more would be listened to for ever, by a thread that does nothing else.
constexpr std::int64_t kFewFrames = 1000;
constexpr std::int64_t kFramesOfSecond = 20;  // up to those few
constexpr std::int64_t kFramesOfMessage = 4;  // and its body's
constexpr std::int64_t kMostFrames = 1 << 20; // of all messages
constexpr std::size_t kLeastFrame = 4000;     // about the smallest that a body is split into

bool
nonsense(const char *what, End &end) noexcept
{
    set_failure(end.why, FailureClass::retriable, "UNEXPECTED_FRAME",
                "RabbitMQ said what it should not: %s", what);
    return false;
}

template <typename Method>
const Method &
decoded(const amqp_frame_t &frame) noexcept
{
    return *static_cast<const Method *>(frame.payload.method.decoded);
}

} // namespace

Connection::Heard
Connection::listen(Ears &ears, End &end)
{
    constexpr int kFrames = 4096;
    for (int i = 0; i < kFrames; i++)
    {
        amqp_frame_t frame;
        timeval now = {0, 0};
        const int status = amqp_simple_wait_frame_noblock(state_.get(), &frame, &now);
        if (status == AMQP_STATUS_TIMEOUT)
            return Heard::all;
        if (status != AMQP_STATUS_OK)
        {
            end.why = failure_of_library(status, "connection lost");
            return Heard::end;
        }
        const bool good = may_say_more() ? hear(frame, ears, end)
                                         : nonsense("much more than there is to say", end);
        amqp_maybe_release_buffers_on_channel(state_.get(), frame.channel);
        if (!good)
            return Heard::end;
    }
    return Heard::more;
}

// Before it is shown, which may change some of its characters.
std::string
Connection::masked(std::string_view said) const
{
    std::string text(said);
    secrets_.mask(text);
    return text;
}

Failure
Connection::failure_of_close(int code, std::string_view said) const
{
    return failure_of_reply(code, masked(said));
}

void
Connection::expect_frames(const Message &message) noexcept
{
    const auto body = static_cast<std::int64_t>(message.body().size() / kLeastFrame);
    frames_ = std::max(frames_, std::min(frames_ + body + kFramesOfMessage, kMostFrames));
}

bool
Connection::may_say_more() noexcept
{
    if (frames_ <= 0)
    {
        constexpr std::int64_t kSecondUs = 1000000;
        constexpr std::int64_t kLongest = kFewFrames / kFramesOfSecond * kSecondUs;
        const std::int64_t now = steady_now();
        const std::int64_t passed = std::min(now - std::exchange(frames_since_, now), kLongest);
        frames_ += passed * kFramesOfSecond / kSecondUs;
    }
    return frames_-- > 0;
}

bool
Connection::hear(const amqp_frame_t &frame, Ears &ears, End &end)
{
    if (frame.frame_type == AMQP_FRAME_METHOD && frame.channel == 0)
        return hear_of_connection(frame, ears, end);
    if (frame.channel != kChannel)
        return nonsense("a frame of a channel that is not open", end);
    if (in_return_)
    {
        const bool expected = frame.frame_type == AMQP_FRAME_HEADER && !in_return_body_
                                  ? hear_header(frame, ears)
                                  : frame.frame_type == AMQP_FRAME_BODY && hear_body(frame);
        return expected || nonsense("a message came back that was not sent, or not whole", end);
    }
    if (frame.frame_type != AMQP_FRAME_METHOD)
        return nonsense("a content that belongs to nothing", end);
    return hear_of_channel(frame, ears, end);
}

bool
Connection::hear_of_connection(const amqp_frame_t &frame, Ears &ears, End &end)
{
    switch (frame.payload.method.id)
    {
    case AMQP_CONNECTION_CLOSE_METHOD:
    {
        const auto &close = decoded<amqp_connection_close_t>(frame);
        end.why = failure_of_close(close.reply_code, view(close.reply_text));
        end.by_server = true;
        end.said = view(close.reply_text);
        amqp_connection_close_ok_t answer = {};
        if (!in_message_ && may_write(chunk_))
            (void) amqp_send_method(state_.get(), 0, AMQP_CONNECTION_CLOSE_OK_METHOD, &answer);
        closed_ = true;
        return false;
    }
    case AMQP_CONNECTION_BLOCKED_METHOD:
        ears.blocked(masked(view(decoded<amqp_connection_blocked_t>(frame).reason)));
        return true;
    case AMQP_CONNECTION_UNBLOCKED_METHOD:
        ears.unblocked();
        return true;
    default:
        return nonsense("an unknown method of the connection", end);
    }
}

bool
Connection::hear_of_channel(const amqp_frame_t &frame, Ears &ears, End &end)
{
    constexpr const char *kNumber = "a confirm of what was not sent";
    switch (frame.payload.method.id)
    {
    case AMQP_BASIC_ACK_METHOD:
    {
        const auto &ack = decoded<amqp_basic_ack_t>(frame);
        return ears.confirmed(ack.delivery_tag, ack.multiple != 0, true) || nonsense(kNumber, end);
    }
    case AMQP_BASIC_NACK_METHOD:
    {
        const auto &nack = decoded<amqp_basic_nack_t>(frame);
        return ears.confirmed(nack.delivery_tag, nack.multiple != 0, false) ||
               nonsense(kNumber, end);
    }
    case AMQP_BASIC_RETURN_METHOD:
    {
        const auto &back = decoded<amqp_basic_return_t>(frame);
        returned_key_ = view(back.routing_key);
        const Shown text(masked(view(back.reply_text)));
        const Shown exchange(masked(view(back.exchange))), key(masked(returned_key_));
        set_failure(returned_why_, FailureClass::event, name_of_reply(back.reply_code),
                    "exchange \"%s\" has no queue for routing key \"%s\": %s (%d)", exchange.text,
                    key.text, text.text, back.reply_code);
        returned_why_.code = back.reply_code;
        in_return_ = true;
        in_return_body_ = false;
        return true;
    }
    case AMQP_CHANNEL_CLOSE_METHOD:
    {
        const auto &close = decoded<amqp_channel_close_t>(frame);
        end.why = failure_of_close(close.reply_code, view(close.reply_text));
        end.by_server = true;
        end.said = view(close.reply_text);
        amqp_channel_close_ok_t answer = {};
        if (!in_message_ && may_write(chunk_))
            (void) amqp_send_method(state_.get(), kChannel, AMQP_CHANNEL_CLOSE_OK_METHOD, &answer);
        return false;
    }
    default:
        return nonsense("an unknown method of the channel", end);
    }
}

bool
Connection::hear_header(const amqp_frame_t &frame, Ears &ears)
{
    const auto *properties =
        static_cast<const amqp_basic_properties_t *>(frame.payload.properties.decoded);
    if (frame.payload.properties.class_id != AMQP_BASIC_CLASS || properties == nullptr)
        return false;
    std::string_view id;
    if ((properties->_flags & AMQP_BASIC_MESSAGE_ID_FLAG) != 0)
        id = view(properties->message_id);
    left_of_return_ = frame.payload.properties.body_size;
    in_return_ = in_return_body_ = left_of_return_ > 0;
    return ears.returned(id, returned_key_, returned_why_);
}

bool
Connection::hear_body(const amqp_frame_t &frame) noexcept
{
    const std::uint64_t size = frame.payload.body_fragment.len;
    if (!in_return_body_ || size > left_of_return_)
        return false;
    left_of_return_ -= size;
    in_return_ = in_return_body_ = left_of_return_ > 0;
    return true;
}

} // namespace outbox::amqp
