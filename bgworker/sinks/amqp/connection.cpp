// Connecting and saying good-bye.
#include "connection.h"

#include "bytes.h"
#include "library.h"
#include "shown.h"
#include "tcp.h"

#include "bgworker/sinks/passphrase.h"

#include <algorithm>
#include <sys/socket.h>
#include <sys/time.h>

namespace outbox::amqp
{

namespace
{

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

const char *
hint_of(int status) noexcept
{
    switch (status)
    {
    case AMQP_STATUS_SSL_PEER_VERIFY_FAILED:
    case AMQP_STATUS_SSL_CONNECTION_FAILED:
        return "The certificate has to be signed by one in ca_file and must not have expired, and "
               "the port has to be one for TLS.";
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

Connection::Connection(const Settings &settings, Lifeline &lifeline)
    : settings_(settings), lifeline_(lifeline)
{
    secrets_.add(settings.password);
}

Connection::~Connection()
{
    lifeline_.forget();
}

std::unique_ptr<Connection>
Connection::open(const Settings &settings, int stop_fd, Lifeline &lifeline, Failure &why)
{
    std::unique_ptr<Connection> made(new Connection(settings, lifeline));
    made->state_.reset(amqp_new_connection());
    if (!made->state_)
        throw std::bad_alloc();
    const timeval limit = time_of(settings.connect_timeout_ms);
    if (amqp_set_handshake_timeout(made->state_.get(), &limit) != AMQP_STATUS_OK ||
        amqp_set_rpc_timeout(made->state_.get(), &limit) != AMQP_STATUS_OK)
        throw std::bad_alloc();
    if (!(settings.tls.on ? made->connect_tls(why) : made->connect(stop_fd, why)))
        return nullptr;
    lifeline.watch(made->fd());
    if (!made->log_in(why) || !made->open_channel(why))
    {
        made->name_certificate(why);
        return nullptr;
    }
    made->size_chunks();
    return made;
}

// With TLS 1.3 a server refuses a certificate when the connection is there already, and the library
// does not say why.
void
Connection::name_certificate(Failure &why) const
{
    if (why.code != AMQP_STATUS_SSL_ERROR || settings_.tls.cert_file.empty())
        return;
    const std::string text = why.text;
    set_failure(why, FailureClass::retriable, "TLS",
                "%s; RabbitMQ may have refused the certificate \"%s\"", text.c_str(),
                settings_.tls.cert_file.c_str());
    why.code = AMQP_STATUS_SSL_ERROR;
    set_hint(why, "RabbitMQ's log says what it has against it: it may have expired.");
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
    // It may be another one than when the relay started; librabbitmq would wait at the terminal.
    if (!tls.key_file.empty() && file_has_passphrase(tls.key_file))
    {
        set_failure(why, FailureClass::retriable, "TLS", "\"%s\": %s", tls.key_file.c_str(),
                    kKeyHasPassphrase);
        set_hint(why, kKeyHasPassphraseHint);
        return false;
    }
    if (!tls.cert_file.empty() && amqp_ssl_socket_set_key(socket, tls.cert_file.c_str(),
                                                          tls.key_file.c_str()) != AMQP_STATUS_OK)
    {
        set_failure(why, FailureClass::retriable, "TLS",
                    "cannot use certificate \"%s\" with key \"%s\"", tls.cert_file.c_str(),
                    tls.key_file.c_str());
        set_hint(why, "Both have to be PEM, and the key that of the certificate.");
        return false;
    }
    timeval limit = time_of(settings_.connect_timeout_ms);
    const int status = amqp_socket_open_noblock(socket, settings_.host.c_str(), port, &limit);
    if (status == AMQP_STATUS_OK)
        return true;
    const bool is_unknown = status == AMQP_STATUS_SSL_PEER_VERIFY_FAILED;
    set_failure(why, FailureClass::retriable, "CONNECTION",
                "cannot connect with TLS to %s:%d: %s%s%s", settings_.host.c_str(), port,
                amqp_error_string2(status), is_unknown ? "; it is checked with " : "",
                is_unknown ? tls.ca_file.c_str() : "");
    set_hint(why, hint_of(status));
    return false;
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
