#include "client.h"

#include "text.h"

#include <nats/nats.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <mutex>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unordered_map>
#include <utility>
#include <vector>

namespace outbox::nats
{

namespace
{

// A connection's callbacks may come while it is destroyed, and after.
struct Listeners
{
    std::mutex mutex;
    std::unordered_map<std::uint64_t, Listener *> all;
    std::uint64_t last = 0;
};

Listeners &
listeners()
{
    static Listeners *const all = new Listeners; // to the end of the process
    return *all;
}

void *
to_closure(std::uint64_t listener) noexcept
{
    return reinterpret_cast<void *>(listener); // NOLINT(performance-no-int-to-ptr)
}

template <typename F>
bool
with_listener(void *closure, F f) noexcept
{
    Listeners &known = listeners();
    const std::lock_guard<std::mutex> lock(known.mutex);
    const auto found = known.all.find(reinterpret_cast<std::uint64_t>(closure));
    if (found == known.all.end())
        return false;
    f(*found->second);
    return true;
}

void
on_message(natsConnection *, natsSubscription *, natsMsg *message, void *closure)
{
    if (!with_listener(closure, [&](Listener &listener) { listener.answered(message); }))
        natsMsg_Destroy(message);
}

void
on_error(natsConnection *, natsSubscription *, natsStatus status, void *closure)
{
    natsStatus last = NATS_OK;
    const char *text = nats_GetLastError(&last);
    if (status == NATS_NOT_PERMITTED && text != nullptr)
        (void) with_listener(closure, [&](Listener &listener) { listener.not_permitted(text); });
}

natsStatus
loop_attach(void **data, void *loop, natsConnection *, natsSock descriptor)
{
    *data = loop;
    static_cast<Client *>(loop)->attach(descriptor);
    // A peer that is gone without a word is found out by the kernel.
    const int on = 1;
    const int idle_s = 10;
    const unsigned limit_ms = 30000;
    (void) setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void) setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void) setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof idle_s);
    (void) setsockopt(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof limit_ms);
    return NATS_OK;
}

natsStatus
loop_read(void *data, bool add)
{
    if (!add)
        static_cast<Client *>(data)->stop_reading();
    return NATS_OK;
}

natsStatus
loop_write(void *data, bool add)
{
    static_cast<Client *>(data)->watch_writing(add);
    return NATS_OK;
}

natsStatus
loop_detach(void *data)
{
    static_cast<Client *>(data)->attach(-1);
    return NATS_OK;
}

struct DestroyOptions
{
    void operator()(natsOptions *options) const noexcept { natsOptions_Destroy(options); }
};
using Options = std::unique_ptr<natsOptions, DestroyOptions>;

} // namespace

std::uint64_t
announce(Listener &listener)
{
    Listeners &known = listeners();
    const std::lock_guard<std::mutex> lock(known.mutex);
    known.all.emplace(++known.last, &listener);
    return known.last;
}

void
release(std::uint64_t listener) noexcept
{
    Listeners &known = listeners();
    const std::lock_guard<std::mutex> lock(known.mutex);
    known.all.erase(listener);
}

Client::Client(const Settings &settings, std::string inbox, std::uint64_t listener)
    : settings_(settings), inbox_(std::move(inbox)), listener_(listener)
{
}

Client::~Client()
{
    disconnect();
    natsStatistics_Destroy(statistics_);
}

void
Client::fail(Failure &why, int status, const char *text) const noexcept
{
    const auto code = static_cast<natsStatus>(status);
    const char *known = natsStatus_GetText(code);
    const char *name = "NO_CONNECTION";
    const char *hint = "";
    if (code == NATS_CONNECTION_AUTH_FAILED)
    {
        name = "AUTHORIZATION";
        hint = "See the options user, password_file, token_file and credentials_file.";
    }
    else if (code == NATS_SSL_ERROR || code == NATS_SECURE_CONNECTION_WANTED ||
             code == NATS_SECURE_CONNECTION_REQUIRED)
    {
        name = "TLS";
        hint = "See the options tls, ca_file, cert_file and key_file.";
    }
    char said[256] = ""; // as libnats keeps of a text
    (void) std::snprintf(said, sizeof said, "%s", text != nullptr ? text : "");
    blank_controls(said);
    mask(said, true);
    set_failure(why, FailureClass::retriable, name, "%s%s%s", known, *said != '\0' ? ": " : "",
                said);
    set_hint(why, hint);
    why.code = status;
}

// libnats does not say of which server it speaks, and of several it says the last.
void
Client::name_servers(Failure &why) const
{
    constexpr std::size_t kShown = 400;
    std::string servers;
    for (const std::string &server : settings_.servers)
        servers.append(servers.empty() ? "" : ", ").append(server);
    if (servers.size() > kShown)
        servers.replace(kShown, std::string::npos, "...");
    const std::string text = why.text;
    // With TLS 1.3 a server refuses a certificate when the connection is there already: libnats
    // hears nothing then, where it waits for the answer to its first words.
    std::string refused;
    if (settings_.tls && (why.code == NATS_PROTOCOL_ERROR || why.code == NATS_IO_ERROR ||
                          why.code == NATS_CONNECTION_CLOSED))
        refused = settings_.cert_file.empty()
                      ? "; it may ask for a certificate, see the option cert_file"
                      : "; it may have refused the certificate \"" + settings_.cert_file +
                            "\", which its log says";
    (void) std::snprintf(why.text, sizeof why.text, "cannot connect to %s: %s%s", servers.c_str(),
                         text.c_str(), refused.c_str());
    if (why.hint[0] == '\0')
        (void) std::snprintf(why.hint, sizeof why.hint,
                             "See that a server listens there, and that its name can be looked "
                             "up and reached from here.");
}

bool
Client::set_options(void *options, Failure &why)
{
    if (!check_tls_files(why))
        return false;
    auto *set = static_cast<natsOptions *>(options);
    std::vector<const char *> servers;
    for (const std::string &server : settings_.servers)
        servers.push_back(server.c_str());
    natsStatus status =
        natsOptions_SetServers(set, servers.data(), static_cast<int>(servers.size()));
    const auto then = [&](natsStatus next) { status = status == NATS_OK ? next : status; };
    then(natsOptions_SetName(set, settings_.client_id.c_str()));
    then(natsOptions_SetTimeout(set, settings_.timeout_ms));
    // Where the relay connects to is for superusers to say, and not for a server, which would be
    // given the password.
    then(natsOptions_SetIgnoreDiscoveredServers(set, true));
    // Whoever owns the client connects anew, and sends what is not acknowledged again.
    then(natsOptions_SetAllowReconnect(set, false));
    // No thread of libnats touches the connection, which might be closed meanwhile: neither its
    // flusher, which would also wait a millisecond for more, nor its timer for pings.
    then(natsOptions_SetSendAsap(set, true));
    then(natsOptions_SetPingInterval(set, 0));
    then(natsOptions_SetWriteDeadline(set, settings_.timeout_ms));
    then(natsOptions_SetErrorHandler(set, on_error, to_closure(listener_)));
    then(natsOptions_SetEventLoop(set, this, loop_attach, loop_read, loop_write, loop_detach));
    if (settings_.tls)
        then(natsOptions_SetSecure(set, true));
    if (!settings_.ca_file.empty())
        then(natsOptions_LoadCATrustedCertificates(set, settings_.ca_file.c_str()));
    if (!settings_.cert_file.empty())
        then(natsOptions_LoadCertificatesChain(set, settings_.cert_file.c_str(),
                                               settings_.key_file.c_str()));
    if (status != NATS_OK)
    {
        natsStatus last = NATS_OK;
        fail(why, status, nats_GetLastError(&last));
        return false;
    }
    return set_secrets(options, why);
}

bool
Client::connect(Failure &why)
{
    disconnect();
    begin_count();
    const Lifeline::Held held(lifeline_);
    natsOptions *made = nullptr;
    natsStatus status = natsOptions_Create(&made);
    const Options options(made);
    if (status != NATS_OK)
    {
        fail(why, status, nullptr);
        return false;
    }
    if (!set_options(options.get(), why))
        return false;
    status = natsConnection_Connect(&connection_, options.get());
    if (status != NATS_OK)
    {
        natsStatus last = NATS_OK;
        connection_ = nullptr;
        close_left();
        descriptor_ = -1;
        fail(why, status, nats_GetLastError(&last));
        name_servers(why);
        return false;
    }
    if (subscribe(why))
        return true;
    disconnect();
    return false;
}

bool
Client::subscribe(Failure &why)
{
    if (natsConnection_HasHeaderSupport(connection_) != NATS_OK)
    {
        set_failure(why, FailureClass::retriable, "NO_HEADERS",
                    "the server takes no headers: JetStream needs NATS 2.2 or later");
        return false;
    }
    // More can only come from somebody who is not asked.
    const int most =
        static_cast<int>(std::clamp<std::size_t>(2 * settings_.max_records, 1024, 16384));
    constexpr int kMaxAnswerBytes = 4 << 20;
    const std::string subject = inbox_ + ".*";
    natsStatus status = natsConnection_Subscribe(&subscription_, connection_, subject.c_str(),
                                                 on_message, to_closure(listener_));
    if (status == NATS_OK)
        status = natsSubscription_SetPendingLimits(subscription_, most, kMaxAnswerBytes);
    if (status == NATS_OK)
        return true;
    fail(why, status, nullptr);
    return false;
}

void
Client::disconnect() noexcept
{
    const Lifeline::Held held(lifeline_);
    if (connection_ != nullptr)
        write();
    natsSubscription_Destroy(subscription_);
    subscription_ = nullptr;
    natsConnection_Destroy(connection_);
    connection_ = nullptr;
    close_left();
    descriptor_ = -1;
    wants_to_write_ = false;
    lifeline_.forget();
    is_flooded_ = false;
}

bool
Client::is_connected() const noexcept
{
    return connection_ != nullptr && !natsConnection_IsClosed(connection_);
}

Client::Published
Client::publish(natsMsg *message) noexcept
{
    expect_talk(natsMsg_GetSubject(message));
    switch (natsConnection_PublishMsg(connection_, message))
    {
    case NATS_OK:
        return Published::done;
    case NATS_MAX_PAYLOAD:
        return Published::too_large;
    case NATS_NO_MEMORY:
        return Published::no_memory;
    default:
        return Published::lost;
    }
}

void
Client::ask(const char *subject, const char *reply) noexcept
{
    // An answer that does not come says nothing.
    (void) natsConnection_PublishRequest(connection_, subject, reply, nullptr, 0);
}

int
Client::buffered() const noexcept
{
    return natsConnection_Buffered(connection_);
}

long long
Client::max_payload() const noexcept
{
    return connection_ != nullptr ? natsConnection_GetMaxPayload(connection_) : 0;
}

void
Client::describe_end(Failure &why) const noexcept
{
    const char *text = nullptr;
    const natsStatus status = connection_ != nullptr
                                  ? natsConnection_GetLastError(connection_, &text)
                                  : NATS_CONNECTION_CLOSED;
    fail(why, status == NATS_OK ? NATS_CONNECTION_CLOSED : status, text);
}

} // namespace outbox::nats
