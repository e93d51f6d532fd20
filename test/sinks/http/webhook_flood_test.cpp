// An endpoint that sends what is neither a header nor a body, as much as the network carries.
#include "webhook_scene.h"

#include "bgworker/sinks/http/effort.h"

#include "support/http_server.h"
#include "support/listener.h"
#include "support/seed.h"
#include "support/times.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace outbox::test
{

namespace
{

// Serves one connection at a time: `flood` gets what to send with, after the request has come.
class FloodingServer
{
public:
    using Send = std::function<bool(const std::string &)>;
    using Flood = std::function<void(const Send &send)>;

    FloodingServer(bool http2, Flood flood) : flood_(std::move(flood))
    {
        if (http2)
        {
            context_ = SSL_CTX_new(TLS_server_method());
            SSL_CTX_use_certificate_chain_file(context_, tls_files().server_cert.c_str());
            SSL_CTX_use_PrivateKey_file(context_, tls_files().server_key.c_str(), SSL_FILETYPE_PEM);
            SSL_CTX_set_alpn_select_cb(context_, choose_http2, nullptr);
        }
        thread_ = std::thread([this] { run(); });
    }
    ~FloodingServer()
    {
        ended_ = true;
        listener_.end();
        thread_.join();
        SSL_CTX_free(context_);
    }

    std::string url() const
    {
        return (context_ != nullptr ? "https://localhost:" : "http://127.0.0.1:") +
               std::to_string(listener_.port()) + "/hook";
    }
    std::size_t sent() const { return sent_; }
    int served() const { return served_; }

private:
    static int choose_http2(SSL *, const unsigned char **chosen, unsigned char *size,
                            const unsigned char *, unsigned, void *)
    {
        *chosen = reinterpret_cast<const unsigned char *>("h2");
        *size = 2;
        return SSL_TLSEXT_ERR_OK;
    }

    void run()
    {
        while (!ended_)
        {
            const int client = listener_.accept();
            if (client < 0)
                continue;
            const timeval limit = {0, 100000};
            (void) setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
            (void) setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
            serve(client);
            (void) ::close(client);
        }
    }

    void serve(int client)
    {
        SSL *tls = context_ != nullptr ? SSL_new(context_) : nullptr;
        if (tls != nullptr)
            SSL_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        if (tls == nullptr || (SSL_set_fd(tls, client) == 1 && SSL_accept(tls) == 1))
        {
            char request[16384];
            while ((tls == nullptr ? ::recv(client, request, sizeof request, 0)
                                   : SSL_read(tls, request, sizeof request)) > 0)
                continue; // until nothing has come for a moment
            served_++;
            flood_([&](const std::string &bytes) { return send(client, tls, bytes); });
        }
        SSL_free(tls);
    }

    bool send(int client, SSL *tls, const std::string &bytes)
    {
        for (std::size_t done = 0; done < bytes.size() && !ended_;)
        {
            const char *at = bytes.data() + done;
            const std::size_t left = bytes.size() - done;
            const auto now = tls == nullptr ? ::send(client, at, left, MSG_NOSIGNAL)
                                            : SSL_write(tls, at, static_cast<int>(left));
            const bool later =
                tls == nullptr ? errno == EAGAIN
                               : SSL_get_error(tls, static_cast<int>(now)) == SSL_ERROR_WANT_WRITE;
            if (now <= 0 && !later)
                return false;
            done += now > 0 ? static_cast<std::size_t>(now) : 0;
            sent_ += now > 0 ? static_cast<std::size_t>(now) : 0;
        }
        return !ended_;
    }

    const Flood flood_;
    SSL_CTX *context_ = nullptr;
    const Listener listener_;
    std::atomic<bool> ended_{false};
    std::atomic<std::size_t> sent_{0};
    std::atomic<int> served_{0};
    std::thread thread_;
};

std::string
number(std::size_t value, int bytes)
{
    std::string text;
    while (bytes-- > 0)
        text += static_cast<char>(value >> (8 * bytes) & 0xff);
    return text;
}

// Of HTTP/2.
std::string
frame(int type, int flags, int stream, const std::string &payload)
{
    return number(payload.size(), 3) + static_cast<char>(type) + static_cast<char>(flags) +
           number(static_cast<std::size_t>(stream), 4) + payload;
}

double
worked_seconds()
{
    timespec time = {};
    (void) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

TEST(WebhookFlood, AnEndpointThatSendsNothingOfUseWithoutAnEndTakesNoCore)
{
    struct Kind
    {
        const char *name;
        bool http2;
        std::string begin;
        std::string flood;
    };
    const std::string answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    const std::string settings = frame(4, 0, 0, "") + frame(4, 1, 0, "");
    const std::string headers = frame(1, 4, 1, "\x88");
    const std::vector<Kind> kinds = {
        {"an extension of a chunk", false, answer + "1;", std::string(65536, 'x')},
        {"extensions of chunks", false, answer,
         times(10, "1;" + std::string(6000, 'x') + "\r\nx\r\n")},
        {"answers to no ping", true, settings, times(4000, frame(6, 1, 0, "12345678"))},
        {"windows", true, settings, times(4000, frame(8, 0, 0, number(1, 4)))},
        {"priorities", true, settings, times(4000, frame(2, 0, 1, std::string(5, '\1')))},
        {"frames of no kind", true, settings, times(4, frame(0xbb, 0, 0, std::string(16000, 'x')))},
        {"no data", true, settings + headers, times(4000, frame(0, 0, 1, ""))},
        {"padding", true, settings + headers,
         times(200, frame(0, 8, 1, std::string(1, '\xff') + std::string(255, '\0')))},
        {"good-byes", true, settings, times(4000, frame(7, 0, 0, number(1, 4) + number(0, 4)))},
    };
    for (const Kind &kind : kinds)
    {
        constexpr auto kWatched = Milliseconds(3000);
        FloodingServer server(kind.http2,
                              [&](const FloodingServer::Send &send)
                              {
                                  for (bool more = send(kind.begin); more; more = send(kind.flood))
                                      continue;
                              });
        Given given = {{"timeout", "60s"}};
        if (kind.http2)
            given.emplace_back("ca_file", tls_files().ca);
        Webhooks hooks(server.url(), given);
        hooks.produce(1, "a");
        const double before = worked_seconds();
        (void) hooks.serve_until([&] { return hooks.heard.results() > 0; }, kWatched);
        const double worked = worked_seconds() - before;
        // Half a second at once, what each request may cost, and a fifth of the time; a call that
        // begins at the end of that is cut after half a second of work, and then ends connections.
        EXPECT_LT(worked, 0.5 + 0.01 * server.served() + 3.0 / 5 + 0.5 + 0.1) << kind.name;
        EXPECT_GT(server.sent(), std::size_t{1} << 20) << kind.name;
    }
}

// Whatever requests there are and whatever work comes, in any order: what they may cost and a fifth
// of the time, and half a second more.
TEST(WebhookFlood, WorkIsWhatRequestsMayCostAndAFifthOfTheTime)
{
    const unsigned seed = choose_seed();
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    for (int round = 0; round < 200; round++)
    {
        const std::int64_t begin = static_cast<std::int64_t>(random() % 1000000000) + 1;
        const std::uint64_t requests = random() % 4; // of four turns
        const std::uint64_t longest = random() % 30000 + 1;
        std::int64_t now = begin;
        std::int64_t worked = 0;
        std::int64_t allowed = 500000;
        http::Effort effort(now);
        for (int turn = 0; turn < 2000; turn++)
        {
            if (random() % 4 < requests)
            {
                effort.add_request(640);
                allowed += 10010;
            }
            const auto work = static_cast<std::int64_t>(random() % longest);
            effort.take(work);
            worked += work;
            now += work;
            const std::int64_t until = effort.rest_until(now);
            ASSERT_TRUE(until == 0 || until > now);
            now = std::max(now, until);
            ASSERT_EQ(effort.rest_until(now), 0);
            ASSERT_LE(worked, allowed + (now - begin) / 5 + 1);
        }
    }
    // Who works less than he may never rests.
    http::Effort effort(1);
    for (std::int64_t now = 1; now < 100000000; now += 10000)
    {
        effort.add_request(0);
        effort.take(9900);
        ASSERT_EQ(effort.rest_until(now), 0);
    }
}

} // namespace

} // namespace outbox::test
