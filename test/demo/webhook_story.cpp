#include "webhook_story.h"

#include <ctime>
#include <mutex>
#include <vector>

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "interrupt.h"
#include "story.h"
#include "support/http_server.h"
#include "support/pg.h"
#include "support/pg_cluster.h"
#include "support/wait.h"
#include "support/workspace.h"

namespace outbox::demo
{

namespace
{

constexpr auto kLimit = std::chrono::seconds(30);
// What the secret file's base64 stands for.
constexpr const char *kKey = "0123456789abcdef01234567";
constexpr const char *kSecret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3";

struct Arrival
{
    test::HttpRequest request;
    std::chrono::system_clock::time_point at;
    bool verified = false;
};

// A receiver in few lines: verifies what it gets and answers at once.
class Receiver
{
public:
    Receiver() : server_([this](const test::HttpRequest &request) { return take(request); }) {}

    std::string url() const { return server_.url("/events"); }
    // The next request is answered with this.
    void fail_once(int status)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        next_status_ = status;
    }
    std::vector<Arrival> arrivals() const
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        return arrivals_;
    }

private:
    static bool is_signed(const test::HttpRequest &request)
    {
        const std::string timestamp = request.header("webhook-timestamp");
        const std::string content =
            request.header("webhook-id") + '.' + timestamp + '.' + request.body;
        unsigned char digest[EVP_MAX_MD_SIZE];
        unsigned size = 0;
        (void) HMAC(EVP_sha256(), kKey, 24, reinterpret_cast<const unsigned char *>(content.data()),
                    content.size(), digest, &size);
        unsigned char text[64];
        (void) EVP_EncodeBlock(text, digest, static_cast<int>(size));
        const bool is_new = std::labs(std::time(nullptr) - std::atol(timestamp.c_str())) < 300;
        return is_new && request.header("webhook-signature") ==
                             "v1," + std::string(reinterpret_cast<char *>(text));
    }

    test::HttpReply take(const test::HttpRequest &request)
    {
        const bool verified = is_signed(request);
        const std::lock_guard<std::mutex> lock(mutex_);
        arrivals_.push_back({request, std::chrono::system_clock::now(), verified});
        const int status = verified ? std::exchange(next_status_, 204) : 401;
        return test::HttpReply::status(status);
    }

    mutable std::mutex mutex_;
    std::vector<Arrival> arrivals_;
    int next_status_ = 204;
    test::HttpServer server_; // the last member: its threads use the others
};

class WebhookStory
{
public:
    WebhookStory(const Screen &screen, test::Db &db, Receiver &receiver)
        : screen_(screen), db_(db), receiver_(receiver)
    {
    }

    void tell()
    {
        screen_.heading("1. An order is placed, and its event becomes a request");
        run("begin;");
        run("insert into orders (id, customer, total) values (1, 'Ada', 25.00);");
        emit("order.created", "{\"id\": 1, \"customer\": \"Ada\", \"total\": 25.00}");
        commit();
        show(await(1));
        screen_.proof("The signature is right: the receiver has verified it with its own code.");

        screen_.heading("2. A transaction that is rolled back sends nothing");
        run("begin;");
        emit("order.created", "{\"id\": 2}");
        run("rollback;");

        screen_.heading("3. The endpoint has a moment of trouble");
        receiver_.fail_once(503);
        run("begin;");
        emit("order.paid", "{\"id\": 1}");
        commit();
        const Arrival first = await(2);
        const Arrival again = await(3);
        show(again);
        if (first.request.header("webhook-id") != again.request.header("webhook-id"))
            throw BrokenPromise("the event did not come again");
        screen_.proof("It was answered 503 first, and came again with the same webhook-id.");

        screen_.heading("4. What the database says");
        const std::string sql = "select state, published_total from outbox.subscription_status;";
        const bool all = test::wait_until(
            kLimit,
            [&]
            {
                check_interrupt();
                return db_.value("select published_total from outbox.subscription_status") == "2";
            });
        if (!all || receiver_.arrivals().size() != 3)
            throw BrokenPromise("not what was committed has arrived");
        screen_.sql(sql, db_.value("select state || ', ' || published_total from "
                                   "outbox.subscription_status"));
        screen_.proof("Two events were committed, and two have arrived.");
    }

    [[noreturn]] void show_what_arrives()
    {
        for (size_t seen = receiver_.arrivals().size();;)
        {
            check_interrupt();
            const auto arrivals = receiver_.arrivals();
            for (; seen < arrivals.size(); seen++)
                show(arrivals[seen]);
            std::this_thread::sleep_for(test::Milliseconds(20));
        }
    }

private:
    void run(const std::string &sql)
    {
        check_interrupt();
        screen_.sql(sql);
        db_.exec(sql);
    }
    void emit(const std::string &type, const std::string &payload)
    {
        const std::string sql =
            fmt::format("select outbox.emit('order', '1', '{}', '{}');", type, payload);
        screen_.sql(sql, db_.value(sql));
    }
    void commit()
    {
        committed_ = std::chrono::system_clock::now();
        run("commit;");
    }

    // The n-th request, from 1.
    Arrival await(size_t number) const
    {
        const bool there = test::wait_until(kLimit,
                                            [&]
                                            {
                                                check_interrupt();
                                                return receiver_.arrivals().size() >= number;
                                            });
        if (!there)
            throw BrokenPromise("a committed event did not arrive");
        Arrival arrival = receiver_.arrivals()[number - 1];
        if (!arrival.verified)
            throw BrokenPromise("a request was not signed as it should be");
        return arrival;
    }

    void show(const Arrival &arrival) const
    {
        const std::chrono::duration<double, std::milli> passed = arrival.at - committed_;
        screen_.text(fmt::format("  POST {}   {} after commit, signature {}",
                                 arrival.request.target, in_milliseconds(passed.count()),
                                 arrival.verified ? "verified" : "WRONG"));
        for (const char *name : {"webhook-id", "webhook-timestamp", "webhook-signature",
                                 "outbox-event-type", "outbox-aggregate-id"})
            screen_.text(fmt::format("    {}: {}", name, arrival.request.header(name)));
        screen_.text("    " + arrival.request.body);
    }

    const Screen &screen_;
    test::Db &db_;
    Receiver &receiver_;
    std::chrono::system_clock::time_point committed_;
};

std::string
write_secret()
{
    const auto path = test::run_dir() / "shop.secret";
    test::write_file(path, std::string(kSecret) + "\n");
    test::give_to_server_user(path);
    return path.string();
}

void
tell(const Screen &screen, const test::PgCluster &cluster, bool once)
{
    test::Db(cluster, "postgres").exec("create database shop");
    test::Db db(cluster, "shop");
    db.exec("create extension outbox; "
            "create table orders (id int primary key, customer text, total numeric)");
    Receiver receiver;
    const std::string sql = fmt::format("select outbox.create_subscription('shop', 'webhook', "
                                        "'{{\"url\": \"{}\", \"secret_file\": \"{}\"}}');",
                                        receiver.url(), write_secret());
    screen.heading("outbox: from a transaction to a webhook");
    screen.item("PostgreSQL", fmt::format("{}, a private cluster on port {}",
                                          db.value("show server_version"), cluster.port()));
    screen.item("Endpoint", receiver.url());
    screen.item("Log", cluster.log_file().string());
    screen.sql(sql);
    db.exec(sql);
    WebhookStory story(screen, db, receiver);
    story.tell();
    if (once)
        return;
    screen.heading("Now you");
    screen.text("  In a second terminal:");
    screen.command(fmt::format("psql -h 127.0.0.1 -p {} -U postgres shop", cluster.port()));
    screen.command("select outbox.emit('order', '1', 'order.returned', '{}');");
    screen.text("Requests appear below. Ctrl-C ends the demo and removes everything.");
    story.show_what_arrives();
}

} // namespace

void
run_webhook_demo(const Screen &screen, bool once)
{
    screen.text("Starting ...");
    test::PgCluster cluster("demo");
    cluster.init({{"shared_preload_libraries", "outbox"}});
    check_interrupt();
    cluster.start();
    tell(screen, cluster, once);
    cluster.stop();
    for (const std::string &line : cluster.new_crashes())
        throw std::runtime_error("a server process crashed: " + line);
    screen.blank();
    screen.text("Stopped; the cluster and its data are removed.");
}

} // namespace outbox::demo
