// Connecting and saying good-bye.
#include "connection.h"

#include "bytes.h"
#include "library.h"
#include "shown.h"
#include "tcp.h"

#include <algorithm>
#include <sys/socket.h>
#include <sys/time.h>

namespace outbox::amqp
{

namespace
{

constexpr amqp_channel_t kChannel = 1;
constexpr int kFrameMax = 131072;
constexpr int kPort = 5672;
constexpr int kTlsPort = 5671;

timeval
time_of(int ms) noexcept
{
    timeval time;
    time.tv_sec = ms / 1000;
    time.tv_usec = ms % 1000 * 1000L;
    return time;
}

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

const char *
hint_of(int status) noexcept
{
    switch (status)
    {
    case AMQP_STATUS_SSL_PEER_VERIFY_FAILED:
    case AMQP_STATUS_SSL_CONNECTION_FAILED:
        return "The certificate has to be signed by one in ca_file, and the port to be one for "
               "TLS.";
    case AMQP_STATUS_SSL_HOSTNAME_VERIFY_FAILED:
        return "The certificate has to be for the host that the options name.";
    default:
        return "";
    }
}

} // namespace

void
Connection::Closer::operator()(amqp_connection_state_t_ *state) const noexcept
{
    (void) amqp_destroy_connection(state);
}

Connection::Connection(const Settings &settings) noexcept : settings_(settings) {}

Connection::~Connection() = default;

std::unique_ptr<Connection>
Connection::open(const Settings &settings, int stop_fd, Failure &why)
{
    std::unique_ptr<Connection> made(new Connection(settings));
    made->state_.reset(amqp_new_connection());
    if (!made->state_)
        throw std::bad_alloc();
    const timeval limit = time_of(settings.connect_timeout_ms);
    if (amqp_set_handshake_timeout(made->state_.get(), &limit) != AMQP_STATUS_OK ||
        amqp_set_rpc_timeout(made->state_.get(), &limit) != AMQP_STATUS_OK)
        throw std::bad_alloc();
    if (!(settings.tls.on ? made->connect_tls(why) : made->connect(stop_fd, why)) ||
        !made->log_in(why) || !made->open_channel(why))
        return nullptr;
    made->size_chunks();
    return made;
}

int
Connection::fd() const noexcept
{
    return amqp_get_sockfd(state_.get());
}

bool
Connection::connect(int stop_fd, Failure &why)
{
    const int port = settings_.port != 0 ? settings_.port : kPort;
    amqp_socket_t *socket = amqp_tcp_socket_new(state_.get());
    if (socket == nullptr)
        throw std::bad_alloc();
    std::string reason;
    const int fd = connect_tcp(settings_.host, port, settings_.connect_timeout_ms, stop_fd, reason);
    if (fd == -1)
    {
        set_failure(why, FailureClass::retriable, "CONNECTION", "cannot connect to %s:%d: %s",
                    settings_.host.c_str(), port, reason.c_str());
        return false;
    }
    amqp_tcp_socket_set_sockfd(socket, fd);
    return true;
}

bool
Connection::connect_tls(Failure &why)
{
    const int port = settings_.port != 0 ? settings_.port : kTlsPort;
    const Tls &tls = settings_.tls;
    amqp_socket_t *socket = amqp_ssl_socket_new(state_.get());
    if (socket == nullptr)
        throw std::bad_alloc();
    amqp_ssl_socket_set_verify_peer(socket, 1);
    amqp_ssl_socket_set_verify_hostname(socket, 1);
    (void) amqp_ssl_socket_set_ssl_versions(socket, AMQP_TLSv1_2, AMQP_TLSvLATEST);
    if (amqp_ssl_socket_set_cacert(socket, tls.ca_file.c_str()) != AMQP_STATUS_OK)
    {
        set_failure(why, FailureClass::retriable, "TLS", "cannot use the certificates in \"%s\"",
                    tls.ca_file.c_str());
        return false;
    }
    if (!tls.cert_file.empty() && amqp_ssl_socket_set_key(socket, tls.cert_file.c_str(),
                                                          tls.key_file.c_str()) != AMQP_STATUS_OK)
    {
        set_failure(why, FailureClass::retriable, "TLS",
                    "cannot use certificate \"%s\" with key \"%s\"", tls.cert_file.c_str(),
                    tls.key_file.c_str());
        return false;
    }
    timeval limit = time_of(settings_.connect_timeout_ms);
    const int status = amqp_socket_open_noblock(socket, settings_.host.c_str(), port, &limit);
    if (status == AMQP_STATUS_OK)
        return true;
    set_failure(why, FailureClass::retriable, "CONNECTION", "cannot connect with TLS to %s:%d: %s",
                settings_.host.c_str(), port, amqp_error_string2(status));
    (void) std::string_view(hint_of(status)).copy(why.hint, sizeof why.hint - 1);
    return false;
}

bool
Connection::check(const amqp_rpc_reply_t &reply, const char *doing, Failure &why) noexcept
{
    switch (reply.reply_type)
    {
    case AMQP_RESPONSE_NORMAL:
        return true;
    case AMQP_RESPONSE_SERVER_EXCEPTION:
        if (reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD)
        {
            const auto &close = *static_cast<amqp_connection_close_t *>(reply.reply.decoded);
            why = failure_of_reply(close.reply_code, view(close.reply_text));
            return false;
        }
        if (reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD)
        {
            const auto &close = *static_cast<amqp_channel_close_t *>(reply.reply.decoded);
            why = failure_of_reply(close.reply_code, view(close.reply_text));
            return false;
        }
        why = failure_of_library(AMQP_STATUS_UNEXPECTED_STATE, doing);
        return false;
    case AMQP_RESPONSE_LIBRARY_EXCEPTION:
        why = failure_of_library(reply.library_error, doing);
        return false;
    default:
        why = failure_of_library(AMQP_STATUS_CONNECTION_CLOSED, doing);
        return false;
    }
}

bool
Connection::log_in(Failure &why)
{
    amqp_table_entry_t capabilities[] = {capability("authentication_failure_close"),
                                         capability("basic.nack"), capability("connection.blocked"),
                                         capability("publisher_confirms")};
    amqp_table_entry_t properties[] = {entry("product", "outbox"),
                                       entry("connection_name", settings_.name.c_str()),
                                       amqp_table_entry_t()};
    properties[2].key = amqp_cstring_bytes("capabilities");
    properties[2].value.kind = AMQP_FIELD_KIND_TABLE;
    properties[2].value.value.table = {4, capabilities};
    const amqp_table_t table = {3, properties};
    return check(amqp_login_with_properties(state_.get(), settings_.vhost.c_str(), 1, kFrameMax,
                                            settings_.heartbeat_s, &table, AMQP_SASL_METHOD_PLAIN,
                                            settings_.username.c_str(), settings_.password.c_str()),
                 "logging in", why);
}

// An exchange that is missing is found here already, before anything is sent.
bool
Connection::open_channel(Failure &why)
{
    amqp_connection_state_t state = state_.get();
    (void) amqp_channel_open(state, kChannel);
    if (!check(amqp_get_rpc_reply(state), "opening a channel", why))
        return false;
    if (!settings_.exchange.empty())
    {
        (void) amqp_exchange_declare(state, kChannel,
                                     amqp_cstring_bytes(settings_.exchange.c_str()),
                                     amqp_cstring_bytes("topic"), 1, 0, 0, 0, amqp_empty_table);
        if (!check(amqp_get_rpc_reply(state), "asking for the exchange", why))
            return false;
    }
    (void) amqp_confirm_select(state, kChannel);
    return check(amqp_get_rpc_reply(state), "asking for confirms", why);
}

void
Connection::size_chunks() noexcept
{
    constexpr std::size_t kLeast = 2048;
    constexpr std::size_t kMost = 32768;
    frame_max_ = static_cast<std::size_t>(std::max(amqp_get_frame_max(state_.get()), 4096));
    int buffer = 0;
    socklen_t size = sizeof buffer;
    if (getsockopt(fd(), SOL_SOCKET, SO_SNDBUF, &buffer, &size) != 0)
        buffer = 0;
    chunk_ = std::clamp(static_cast<std::size_t>(buffer) / 8, kLeast, kMost);
}

void
Connection::part(int timeout_ms) noexcept
{
    if (closed_ || in_message_ || !may_write(1))
        return;
    const timeval limit = time_of(timeout_ms);
    if (amqp_set_rpc_timeout(state_.get(), &limit) == AMQP_STATUS_OK)
        (void) amqp_connection_close(state_.get(), AMQP_REPLY_SUCCESS);
}

} // namespace outbox::amqp
