// Logging in and opening the channel. Step by step, as librabbitmq would keep whatever else a
// server sends before its answer, gigabytes in some seconds.
#include "connection.h"

#include "bytes.h"
#include "library.h"
#include "shown.h"

#include "extension/core/steady.h"

#include <algorithm>
#include <sys/time.h>

namespace outbox::amqp
{

namespace
{

constexpr amqp_channel_t kChannel = 1;
constexpr int kFrameMax = 131072;
constexpr int kLeastFrameMax = 4096; // AMQP's

amqp_table_entry_t
entry(const char *name, const char *text) noexcept
{
    amqp_table_entry_t made = {};
    made.key = amqp_cstring_bytes(name);
    made.value.kind = AMQP_FIELD_KIND_UTF8;
    made.value.value.bytes = amqp_cstring_bytes(text);
    return made;
}

amqp_table_entry_t
capability(const char *name) noexcept
{
    amqp_table_entry_t made = {};
    made.key = amqp_cstring_bytes(name);
    made.value.kind = AMQP_FIELD_KIND_BOOLEAN;
    made.value.value.boolean = 1;
    return made;
}

// The smaller one; 0: it has no limit.
int
agreed(int server, int ours) noexcept
{
    return server == 0 ? ours : std::min(server, ours);
}

bool
names_plain(std::string_view mechanisms)
{
    constexpr std::string_view kPlain = "PLAIN";
    while (!mechanisms.empty())
    {
        const std::size_t end = std::min(mechanisms.find(' '), mechanisms.size());
        if (mechanisms.substr(0, end) == kPlain)
            return true;
        mechanisms.remove_prefix(std::min(end + 1, mechanisms.size()));
    }
    return false;
}

} // namespace

bool
Connection::send(int channel, std::uint32_t id, void *method, const char *doing, Failure &why)
{
    const int status =
        amqp_send_method(state_.get(), static_cast<amqp_channel_t>(channel), id, method);
    if (status == AMQP_STATUS_OK)
        return true;
    why = failure_of_library(status, doing);
    return false;
}

// The next frame has to be the answer, or to say why there is none; but RabbitMQ may tell of an
// alarm at any time.
bool
Connection::await(int channel, std::uint32_t id, const char *doing, amqp_frame_t_ &frame,
                  Failure &why)
{
    constexpr int kMostFrames = 16;
    constexpr std::int64_t kSecond = 1000000;
    for (int i = 0; i < kMostFrames; i++)
    {
        const std::int64_t left = std::max<std::int64_t>(log_in_until_ - steady_now(), 0);
        const timeval limit = {left / kSecond, left % kSecond};
        const int status = amqp_simple_wait_frame_noblock(state_.get(), &frame, &limit);
        if (status != AMQP_STATUS_OK)
        {
            why = failure_of_library(status, doing);
            return false;
        }
        const std::uint32_t said =
            frame.frame_type == AMQP_FRAME_METHOD ? frame.payload.method.id : 0;
        if (said == id && frame.channel == channel)
            return true;
        if (said == AMQP_CONNECTION_CLOSE_METHOD)
        {
            const auto &close =
                *static_cast<amqp_connection_close_t *>(frame.payload.method.decoded);
            why = failure_of_close(close.reply_code, view(close.reply_text));
            return false;
        }
        if (said == AMQP_CHANNEL_CLOSE_METHOD)
        {
            const auto &close = *static_cast<amqp_channel_close_t *>(frame.payload.method.decoded);
            why = failure_of_close(close.reply_code, view(close.reply_text));
            return false;
        }
        const bool is_alarm =
            said == AMQP_CONNECTION_BLOCKED_METHOD || said == AMQP_CONNECTION_UNBLOCKED_METHOD;
        amqp_maybe_release_buffers_on_channel(state_.get(), frame.channel);
        if (!is_alarm)
            break;
    }
    why = failure_of_library(AMQP_STATUS_UNEXPECTED_STATE, doing);
    return false;
}

bool
Connection::ask(int channel, std::uint32_t id, void *method, std::uint32_t answer,
                const char *doing, Failure &why)
{
    amqp_frame_t frame;
    if (!send(channel, id, method, doing, why) || !await(channel, answer, doing, frame, why))
        return false;
    amqp_maybe_release_buffers(state_.get());
    return true;
}

bool
Connection::start(Failure &why)
{
    constexpr const char *kDoing = "logging in";
    amqp_frame_t frame;
    const int status = amqp_send_header(state_.get());
    if (status != AMQP_STATUS_OK)
    {
        why = failure_of_library(status, kDoing);
        return false;
    }
    if (!await(0, AMQP_CONNECTION_START_METHOD, kDoing, frame, why))
        return false;
    const auto &offer = *static_cast<amqp_connection_start_t *>(frame.payload.method.decoded);
    const bool fits = offer.version_major == AMQP_PROTOCOL_VERSION_MAJOR &&
                      offer.version_minor == AMQP_PROTOCOL_VERSION_MINOR;
    const bool plain = names_plain(view(offer.mechanisms));
    amqp_maybe_release_buffers(state_.get());
    if (!fits || !plain)
    {
        why = failure_of_library(fits ? AMQP_STATUS_BROKER_UNSUPPORTED_SASL_METHOD
                                      : AMQP_STATUS_INCOMPATIBLE_AMQP_VERSION,
                                 kDoing);
        return false;
    }
    amqp_table_entry_t capabilities[] = {capability("authentication_failure_close"),
                                         capability("basic.nack"), capability("connection.blocked"),
                                         capability("publisher_confirms")};
    amqp_table_entry_t properties[] = {entry("product", "outbox"),
                                       entry("connection_name", settings_.name.c_str()),
                                       amqp_table_entry_t()};
    properties[2].key = amqp_cstring_bytes("capabilities");
    properties[2].value.kind = AMQP_FIELD_KIND_TABLE;
    properties[2].value.value.table = {4, capabilities};
    std::string response;
    response.append(1, '\0').append(settings_.username).append(1, '\0').append(settings_.password);
    amqp_connection_start_ok_t answer = {};
    answer.client_properties = {3, properties};
    answer.mechanism = amqp_cstring_bytes("PLAIN");
    answer.response = {response.size(), response.data()};
    answer.locale = amqp_cstring_bytes("en_US");
    const bool sent = send(0, AMQP_CONNECTION_START_OK_METHOD, &answer, kDoing, why);
    std::fill(response.begin(), response.end(), '\0');
    return sent;
}

bool
Connection::tune(Failure &why)
{
    constexpr const char *kDoing = "logging in";
    amqp_frame_t frame;
    if (!await(0, AMQP_CONNECTION_TUNE_METHOD, kDoing, frame, why))
        return false;
    const auto offer = *static_cast<amqp_connection_tune_t *>(frame.payload.method.decoded);
    amqp_maybe_release_buffers(state_.get());
    const int most = static_cast<int>(std::min<std::uint32_t>(offer.frame_max, kFrameMax));
    const int frame_max = std::max(agreed(most, kFrameMax), kLeastFrameMax);
    const int heartbeat = agreed(offer.heartbeat, settings_.heartbeat_s);
    const int status = amqp_tune_connection(state_.get(), kChannel, frame_max, heartbeat);
    if (status != AMQP_STATUS_OK)
    {
        why = failure_of_library(status, kDoing);
        return false;
    }
    amqp_connection_tune_ok_t answer = {};
    answer.channel_max = kChannel;
    answer.frame_max = static_cast<std::uint32_t>(frame_max);
    answer.heartbeat = static_cast<std::uint16_t>(heartbeat);
    return send(0, AMQP_CONNECTION_TUNE_OK_METHOD, &answer, kDoing, why);
}

bool
Connection::log_in(Failure &why)
{
    log_in_until_ = steady_now() + std::int64_t{settings_.connect_timeout_ms} * 1000;
    if (!start(why) || !tune(why))
        return false;
    amqp_connection_open_t open = {};
    open.virtual_host = amqp_cstring_bytes(settings_.vhost.c_str());
    open.insist = 1;
    return ask(0, AMQP_CONNECTION_OPEN_METHOD, &open, AMQP_CONNECTION_OPEN_OK_METHOD, "logging in",
               why);
}

// An exchange that is missing is found here already, before anything is sent.
bool
Connection::open_channel(Failure &why)
{
    amqp_channel_open_t open = {};
    if (!ask(kChannel, AMQP_CHANNEL_OPEN_METHOD, &open, AMQP_CHANNEL_OPEN_OK_METHOD,
             "opening a channel", why))
        return false;
    amqp_exchange_declare_t declare = {};
    declare.exchange = amqp_cstring_bytes(settings_.exchange.c_str());
    declare.type = amqp_cstring_bytes("topic");
    declare.passive = 1;
    if (!settings_.exchange.empty() &&
        !ask(kChannel, AMQP_EXCHANGE_DECLARE_METHOD, &declare, AMQP_EXCHANGE_DECLARE_OK_METHOD,
             "asking for the exchange", why))
        return false;
    amqp_confirm_select_t select = {};
    return ask(kChannel, AMQP_CONFIRM_SELECT_METHOD, &select, AMQP_CONFIRM_SELECT_OK_METHOD,
               "asking for confirms", why);
}

} // namespace outbox::amqp
