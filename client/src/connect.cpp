#include "connect.h"

#include "hosts.h"
#include "outbox/error.h"
#include "sql.h"
#include "text.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <random>

#include <poll.h>
#include <sys/ioctl.h>

namespace outbox::v0::detail
{

namespace
{

using Clock = std::chrono::steady_clock;

constexpr int kDefaultTimeoutMs = 10000;
constexpr int kLeastTimeoutMs = 2000; // of libpq, too
constexpr int kMostTimeoutS = 3600;
constexpr auto kRound = std::chrono::seconds(60);
constexpr std::size_t kMaxMessage = 2000;
// A server that means well says some hundred bytes, or some thousand with notices.
constexpr std::size_t kMostReceived = std::size_t{16} * 1024 * 1024;
constexpr int kMostNotices = 20;       // of an attempt, that anybody sees
constexpr std::size_t kPass = 1000000; // no list of hosts is that long

[[noreturn]] void
refuse(const std::string &why)
{
    throw DatabaseError(why, "08001");
}

// Nothing if it is no number of seconds, which white space may surround.
std::optional<int>
to_timeout_ms(const std::string &text)
{
    if (text.empty())
        return kDefaultTimeoutMs;
    std::size_t end = 0;
    long seconds = 0;
    try
    {
        seconds = std::stol(text, &end);
    }
    catch (const std::exception &)
    {
        return std::nullopt;
    }
    if (text.find_first_not_of(" \t\n\r\f\v", end) != std::string::npos)
        return std::nullopt;
    if (seconds <= 0) // for ever, says libpq; but nothing here hangs for ever
        return kDefaultTimeoutMs;
    return std::max(kLeastTimeoutMs,
                    static_cast<int>(std::min<long>(seconds, kMostTimeoutS)) * 1000);
}

// libpq's message would quote parts of the text, and there may be a password in it.
void
check_conninfo(const std::string &conninfo)
{
    char *message = nullptr;
    const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> options(
        PQconninfoParse(conninfo.c_str(), &message), &PQconninfoFree);
    PQfreemem(message);
    if (!options || conninfo.find('\0') != std::string::npos)
        throw UsageError("conninfo is not a connection string of libpq");
    for (const PQconninfoOption *option = options.get(); option->keyword != nullptr; ++option)
        if (std::strcmp(option->keyword, "connect_timeout") == 0 && option->val != nullptr &&
            !to_timeout_ms(option->val))
            throw UsageError("connect_timeout in conninfo is not a number of seconds");
}

// How one attempt ended.
struct Outcome
{
    std::string error;    // empty: connected
    bool reached = false; // the server has answered, so another address of it would not
};

// The first notices of a connection that is being made go on, to where libpq lets them go if nobody
// wants them, no others.
class FewNotices
{
public:
    FewNotices(PGconn *connection, const Connector::Notices &to)
        : connection_(connection), to_(to), former_(PQsetNoticeProcessor(connection, &pass, this))
    {
    }
    ~FewNotices() { (void) PQsetNoticeProcessor(connection_, former_, nullptr); }
    FewNotices(const FewNotices &) = delete;
    FewNotices &operator=(const FewNotices &) = delete;

private:
    static void pass(void *self, const char *text)
    {
        auto *notices = static_cast<FewNotices *>(self);
        if (notices->left_ <= 0)
            return;
        notices->left_--;
        if (notices->to_)
            notices->to_(text);
        else
            notices->former_(nullptr, text);
    }

    PGconn *connection_;
    const Connector::Notices &to_;
    PQnoticeProcessor former_;
    int left_ = kMostNotices;
};

// What one step of PQconnectPoll() finds in the socket; of more than its buffer it reads only that.
std::size_t
waiting_in(int socket)
{
    int count = 0;
    return ioctl(socket, FIONREAD, &count) == 0 && count > 0 ? static_cast<std::size_t>(count) : 0;
}

Outcome
finish(PGconn *connection, const std::string &name, int timeout_ms, const StopFlag &stop,
       const Connector::Notices &to)
{
    // Not cut off here: who hides passwords must see them whole.
    const auto said = [&] { return one_line(PQerrorMessage(connection)); };
    Outcome outcome;
    const FewNotices notices(connection, to);
    // In blocking mode libpq would wait, and read without end, for a server that asks for a
    // password again and again and reads none. What it has said already, to whom it connects, it
    // forgets with that.
    const std::string begun = said();
    (void) PQsetnonblocking(connection, 1); // fails if it has failed already
    const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
    const std::string limit = std::to_string(timeout_ms / 1000) + " s";
    std::size_t received = 0;
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;
    while (PQstatus(connection) != CONNECTION_BAD && next != PGRES_POLLING_OK &&
           next != PGRES_POLLING_FAILED)
    {
        outcome.reached = outcome.reached || PQstatus(connection) == CONNECTION_AUTH_OK ||
                          PQstatus(connection) == CONNECTION_SETENV;
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
        if (left <= 0)
        {
            std::string &error = outcome.error;
            if (received == 0)
                error.append("no answer within ").append(limit).append(" from ").append(name);
            else
                error.append(name).append(" answers, but did not let us in within ").append(limit);
            return outcome;
        }
        wait_for_socket(PQsocket(connection), next == PGRES_POLLING_READING ? POLLIN : POLLOUT,
                        static_cast<int>(left), &stop);
        if (stop.raised())
            throw Stopped();
        received += waiting_in(PQsocket(connection));
        if (received > kMostReceived)
        {
            outcome.error = name + " sends without end instead of letting us in: is that a "
                                   "PostgreSQL server?";
            outcome.reached = true;
            return outcome;
        }
        next = PQconnectPoll(connection);
    }
    if (PQstatus(connection) == CONNECTION_OK)
    {
        (void) PQsetnonblocking(connection, 0); // nothing is left that it could wait for
        return outcome;
    }
    outcome.error = said();
    if (!begun.empty() && outcome.error.compare(0, begun.size(), begun) != 0)
        outcome.error = begun + outcome.error;
    // libpq words what the server said in this way.
    outcome.reached = outcome.reached || outcome.error.find("FATAL: ") != std::string::npos;
    return outcome;
}

} // namespace

void
wait_for_socket(int socket, short events, int timeout_ms, const StopFlag *stop)
{
    std::array<pollfd, 2> fds = {
        {{socket, events, 0}, {stop == nullptr ? -1 : stop->fd(), POLLIN, 0}}};
    if (poll(fds.data(), fds.size(), timeout_ms) < 0 && errno != EINTR)
        throw DatabaseError("poll: " + std::string(std::strerror(errno)), "58030");
    if (stop != nullptr && fds[1].revents != 0)
        stop->settle();
}

Connector::Connector(const std::string &conninfo, const std::string &application)
    // The caller's own settings come last and win.
    : settings_{{"client_encoding", "UTF8"},   {"keepalives_idle", "10"},
                {"keepalives_interval", "5"},  {"keepalives_count", "3"},
                {"tcp_user_timeout", "30000"}, {"fallback_application_name", application},
                {"dbname", conninfo}},
      round_(kRound)
{
    check_conninfo(conninfo);
}

Connector::Connector(Settings settings, std::chrono::seconds round)
    : settings_(std::move(settings)), round_(round)
{
}

Connection
Connector::start(const Settings &settings) const
{
    std::vector<const char *> keywords;
    std::vector<const char *> values;
    for (const auto *list : {&settings_, &settings})
        for (const auto &[keyword, value] : *list)
        {
            keywords.push_back(keyword.c_str());
            values.push_back(value.c_str());
        }
    keywords.push_back(nullptr);
    values.push_back(nullptr);
    Connection connection(PQconnectStartParams(keywords.data(), values.data(), 1), &PQfinish);
    if (!connection)
        throw std::bad_alloc();
    return connection;
}

// What there is to try now, by the connection string, its service file, the environment and the
// name service.
std::vector<Connector::Target>
Connector::targets(int *timeout_ms, const StopFlag &stop)
{
    // With an impossible sslmode libpq puts its settings together and connects to nothing.
    const Connection none = start({{"sslmode", "only to see the settings"}});
    AllSettings all;
    PQconninfoOption *options = PQconninfo(none.get());
    if (options == nullptr)
        throw std::bad_alloc();
    for (const PQconninfoOption *option = options; option->keyword != nullptr; ++option)
        if (option->val != nullptr)
            all[option->keyword] = option->val;
    PQconninfoFree(options);
    const std::optional<int> timeout = to_timeout_ms(value_of(all, "connect_timeout"));
    if (!timeout) // of a service or the environment
        refuse("connect_timeout is not a number of seconds");
    *timeout_ms = *timeout;

    const bool shuffle = value_of(all, "load_balance_hosts") == "random";
    std::mt19937 random{std::random_device()()};
    std::vector<Host> hosts = hosts_of(all);
    if (shuffle)
        std::shuffle(hosts.begin(), hosts.end(), random);

    const auto is_looked_up = [](const Host &host)
    { return host.address.empty() && !host.name.empty() && !is_socket(host.name); };
    for (const Host &host : hosts)
        if (is_looked_up(host))
            names_.begin(host.name);
    const auto deadline = Clock::now() + std::chrono::milliseconds(*timeout_ms);
    std::string errors;
    std::map<std::string, std::vector<std::string>> found; // a name may be there several times
    std::vector<Target> list;
    for (const Host &host : hosts)
    {
        std::vector<std::string> addresses = {host.address}; // none for a socket
        if (is_looked_up(host) && found.count(host.name) == 0)
        {
            std::string why;
            found[host.name] = names_.addresses(host.name, deadline, &stop, &why);
            errors += (errors.empty() || why.empty() ? "" : "; ") + why;
        }
        if (is_looked_up(host))
            addresses = found[host.name];
        if (shuffle)
            std::shuffle(addresses.begin(), addresses.end(), random);
        for (const std::string &address : addresses)
        {
            Target target;
            target.host = host.place;
            target.name = (host.name.empty() ? address : host.name) + ":" + host.port;
            target.settings = {{"port", host.port}, {"hostaddr", address}};
            if (!host.name.empty())
                target.settings.emplace_back("host", host.name);
            if (shuffle)
                target.settings.emplace_back("load_balance_hosts", "disable");
            list.push_back(std::move(target));
        }
    }
    if (list.empty())
        refuse("no host to connect to: " + errors);
    return value_of(all, "target_session_attrs") == "prefer-standby" ? standbys_first(list) : list;
}

// libpq looks for a standby among all hosts before it takes any.
std::vector<Connector::Target>
Connector::standbys_first(const std::vector<Target> &list)
{
    std::vector<Target> both;
    for (const char *attribute : {"standby", "any"})
        for (Target target : list)
        {
            target.host += attribute[0] == 'a' ? kPass : 0;
            target.settings.emplace_back("target_session_attrs", attribute);
            both.push_back(std::move(target));
        }
    return both;
}

Connection
Connector::connect(const StopFlag &stop)
{
    int timeout_ms = 0;
    const std::vector<Target> list = targets(&timeout_ms, stop);
    const auto end = Clock::now() + round_;
    std::string errors;
    failed_.reset();
    const std::size_t begin = first_ < list.size() ? first_ : 0;
    first_ = 0;
    for (std::size_t i = begin; i < list.size(); ++i)
    {
        if (i > begin && Clock::now() >= end)
        {
            first_ = i;
            break;
        }
        Connection connection = start(list[i].settings);
        const Outcome outcome = finish(connection.get(), list[i].name, timeout_ms, stop, notices_);
        if (outcome.error.empty())
            return connection;
        errors += (errors.empty() ? "" : "; ") + outcome.error;
        // libpq has closed it then: one that is open would keep a place at the server.
        const bool closed = PQstatus(connection.get()) == CONNECTION_BAD;
        if (closed && (!failed_ || PQconnectionNeedsPassword(failed_.get()) == 0))
            failed_ = std::move(connection);
        while (outcome.reached && i + 1 < list.size() && list[i + 1].host == list[i].host)
            ++i;
    }
    throw DatabaseError(whole_ ? errors : clip(errors, kMaxMessage), "08001");
}

} // namespace outbox::v0::detail
