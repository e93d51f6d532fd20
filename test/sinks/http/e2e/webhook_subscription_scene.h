// What the end-to-end tests of webhooks share.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "e2e/servers.h"
#include "support/http_server.h"
#include "support/process.h"

namespace outbox::test
{

constexpr const char *kWebhookSecret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3";
constexpr auto kWebhookLimit = std::chrono::seconds(60);

// An endpoint that remembers what it has taken, and can be killed and started again. What the test
// makes it answer may be another status than 204; only 2xx counts as taken.
class Endpoint
{
public:
    using Answer = std::function<HttpReply(const HttpRequest &)>;

    explicit Endpoint(Answer answer = nullptr);

    std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/hook"; }
    // Ends all connections, in the middle of whatever, and listens no more.
    void kill() { server_.reset(); }
    void start();
    void answer_with(Answer answer);

    // In the order of arrival. Topics are those of Kafka's default template.
    std::vector<Delivery> taken() const;
    std::set<std::string> ids() const;
    int requests() const { return requests_; }

private:
    HttpReply answer(const HttpRequest &request);

    mutable std::mutex mutex_;
    Answer answer_;
    std::vector<Delivery> taken_;
    std::atomic<int> requests_{0};
    int port_ = 0;
    std::unique_ptr<HttpServer> server_;
};

// A database with a subscription `hook` to an endpoint.
struct WebhookScene
{
    explicit WebhookScene(PgCluster &cluster);

    // `more` are further arguments of jsonb_build_object(), which win.
    void subscribe(const std::string &url, const std::string &more = "");
    std::string emit(const std::string &key = "k", const std::string &payload = "{}",
                     const std::string &event = "made");
    std::string status(const std::string &column) const;
    bool reaches(const std::string &column, const std::string &value) const;
    // Whether all that is committed arrives there.
    bool arrives(const Endpoint &endpoint, Milliseconds limit = kWebhookLimit) const;
    // Kills the subscription's relay.
    void kill_relay() const;
    std::string describe() const;

    PgCluster &server;
    TestDatabase database;
    mutable Db db;
    const std::string secret_file; // that the server's user can read
};

// A file in the run's directory, for the server's user.
std::string file_for_server(const std::string &content);

// A program that says "listening on <port>", then a line for each request.
class ReceiverProgram
{
public:
    ReceiverProgram(const std::vector<std::string> &words,
                    const std::map<std::string, std::string> &environment = {},
                    const std::string &scheme = "http");

    std::string url() const { return url_; }
    std::string output() const;
    // The lines that begin with this word.
    std::vector<std::string> lines(const std::string &word) const;

private:
    std::string log_;
    std::unique_ptr<Process> process_;
    std::string url_;
};

// What scripts/fetch-webhook-libraries prints.
std::string webhook_libraries(const std::string &language);

} // namespace outbox::test
