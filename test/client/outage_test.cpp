// Connections that are lost, to PostgreSQL and to Kafka, at bad moments.
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "harness.h"
#include "support/tcp_proxy.h"

using namespace outbox::test;

namespace
{

// Stands between one client and a server with a Unix socket, whose buffers are small and known, and
// stops reading when the client has begun to send a large statement.
class StallingServer
{
public:
    StallingServer(const std::filesystem::path &server, std::filesystem::path directory,
                   std::string stalls_at)
        : directory_(std::move(directory)), stalls_at_(std::move(stalls_at)),
          listener_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)), server_(address(server)),
          own_(address(directory_ / ".s.PGSQL.5432"))
    {
        if (bind(listener_, reinterpret_cast<const sockaddr *>(&own_), sizeof own_) != 0 ||
            listen(listener_, 8) != 0)
            throw std::runtime_error("cannot listen");
        thread_ = std::thread([this] { serve(); });
    }
    ~StallingServer() { end(); }
    StallingServer(const StallingServer &) = delete;
    StallingServer &operator=(const StallingServer &) = delete;

    std::string conninfo() const { return " host=" + directory_.string() + " port=5432"; }
    bool stalled() const { return stalled_; }
    // Whether nothing more has come for a while, though there was something.
    bool full()
    {
        int queued = 0;
        if (ioctl(client_, FIONREAD, &queued) != 0 || queued != std::exchange(queued_, queued))
            filled_ = Clock::now();
        return queued > 0 && since(filled_) > Milliseconds(200);
    }
    void end()
    {
        ending_ = true;
        if (thread_.joinable())
            thread_.join();
        close(std::exchange(listener_, -1));
    }

private:
    static sockaddr_un address(const std::filesystem::path &path)
    {
        sockaddr_un result = {};
        result.sun_family = AF_UNIX;
        if (path.string().size() >= sizeof result.sun_path)
            throw std::runtime_error("too long for a socket: " + path.string());
        std::strcpy(result.sun_path, path.c_str());
        return result;
    }

    // False when the connection has ended.
    bool pass(int from, int to, bool up)
    {
        std::array<char, 8192> buffer;
        const ssize_t got = recv(from, buffer.data(), buffer.size(), 0);
        if (got <= 0)
            return false;
        const std::string text(buffer.data(), static_cast<size_t>(got));
        if (up && text.size() == buffer.size() && text.find(stalls_at_) != std::string::npos)
            stalled_ = true;
        return send(to, text.data(), text.size(), MSG_NOSIGNAL) == got;
    }

    void serve()
    {
        const int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool open =
            connect(server, reinterpret_cast<const sockaddr *>(&server_), sizeof server_) == 0;
        while (!ending_ && open)
        {
            std::array<pollfd, 2> fds = {{{client_ < 0 ? listener_ : client_.load(), POLLIN, 0},
                                          {client_ < 0 ? -1 : server, POLLIN, 0}}};
            const int ready = poll(fds.data(), stalled_ ? 0 : fds.size(), 20);
            if (ready <= 0)
                continue;
            if (client_ < 0)
                client_ = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
            else
                open = (fds[0].revents == 0 || pass(client_, server, true)) &&
                       (fds[1].revents == 0 || pass(server, client_, false));
        }
        close(client_);
        close(server);
    }

    const std::filesystem::path directory_;
    const std::string stalls_at_;
    int listener_;
    const sockaddr_un server_;
    const sockaddr_un own_;
    int queued_ = 0;
    Clock::time_point filled_ = Clock::now();
    std::atomic<int> client_{-1};
    std::atomic<bool> stalled_{false};
    std::atomic<bool> ending_{false};
    std::thread thread_;
};

} // namespace

TEST(Outage, AHandlerWhoseBackendIsKilledIsCalledAgainAndThatIsNoFailureOfTheRecord)
{
    Scene scene;
    scene.writer.write(scene.topic, "k", "{}", event_id(1));
    outbox::ConsumerOptions options = scene.options();
    options.max_attempts = 1; // a counted failure would make it a dead letter
    std::atomic<int> calls{0};
    RunningConsumer consumer(options,
                             [&](PGconn *transaction, const outbox::Record &record)
                             {
                                 insert_effect(transaction, record);
                                 if (++calls <= 3)
                                     run_sql(transaction,
                                             "select pg_terminate_backend(pg_backend_pid())");
                             });
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    EXPECT_EQ(calls, 4);
    EXPECT_EQ(scene.effects(), 1);
}

// The COMMIT arrives, and its answer does not.
TEST(Outage, ACommitOfUnknownOutcomeIsNotDoneTwice)
{
    for (const auto policy : {outbox::OffsetPolicy::kafka, outbox::OffsetPolicy::postgres})
    {
        Scene scene;
        TcpProxy proxy;
        proxy.forward_to(scene.server.port());
        scene.writer.write(scene.topic, "k", "{}", event_id(1), {}, 0);
        outbox::ConsumerOptions options = scene.options();
        options.conninfo = scene.server.conninfo(scene.database.name()) +
                           " host=127.0.0.1 port=" + std::to_string(proxy.port());
        options.offsets = policy;
        std::atomic<int> calls{0};
        RunningConsumer consumer(options,
                                 [&](PGconn *transaction, const outbox::Record &record)
                                 {
                                     insert_effect(transaction, record);
                                     ++calls;
                                     proxy.set(TcpProxy::Mode::kNoAnswers);
                                 });
        ASSERT_TRUE(scene.reaches(1)); // committed, and the consumer does not know
        EXPECT_FALSE(consumer.logged("will be tried again"));
        proxy.set(TcpProxy::Mode::kCut);
        EXPECT_TRUE(wait_until(kSoon, [&] { return consumer.logged("will be tried again"); }));
        proxy.set(TcpProxy::Mode::kPass);
        EXPECT_TRUE(scene.drained(options.consumer));
        consumer.finish();
        EXPECT_EQ(calls, 1);
        EXPECT_EQ(scene.effects(), 1);
    }
}

TEST(Outage, PostgresCanBeAwayAtTheBeginningAndBeRestartedLater)
{
    OwnCluster server;
    Scene scene(server);
    for (int i = 0; i < 300; ++i)
        scene.writer.send(scene.topic, std::to_string(i), "{}", event_id(i));
    scene.writer.flush();
    outbox::ConsumerOptions options = scene.options();
    options.offsets = outbox::OffsetPolicy::postgres; // which are asked for at the assignment
    server.stop();
    RunningConsumer consumer(options, &insert_effect);
    EXPECT_TRUE(wait_until(kSoon, [&] { return consumer.logged("stored offsets: "); }));
    server.start();
    scene.db = scene.database.connect();
    EXPECT_TRUE(scene.reaches(1));
    for (int round = 0; round < 2; ++round)
    {
        server.restart();
        scene.db = scene.database.connect();
        for (int i = 0; i < 300; ++i)
            scene.writer.send(scene.topic, std::to_string(i), "{}",
                              event_id((round + 1) * 300 + i));
        scene.writer.flush();
    }
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    EXPECT_EQ(scene.effects(), 900);
    EXPECT_EQ(scene.events(), 900);
}

TEST(Outage, KafkaCanGoAwayAndComeBack)
{
    Scene scene;
    const outbox::ConsumerOptions options = scene.options();
    RunningConsumer consumer(options, &insert_effect);
    for (int i = 0; i < 50; ++i)
        scene.writer.send(scene.topic, std::to_string(i), "{}", event_id(i));
    scene.writer.flush();
    ASSERT_TRUE(scene.reaches(50));
    kafka().kill9();
    EXPECT_TRUE(wait_until(kSoon, [&] { return consumer.logged("_TRANSPORT"); }));
    kafka().start();
    for (int i = 0; i < 100; ++i) // half of them again
        scene.writer.send(scene.topic, std::to_string(i), "{}", event_id(i));
    scene.writer.flush();
    EXPECT_TRUE(scene.reaches(100));
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    EXPECT_EQ(scene.effects(), 100);
    EXPECT_EQ(scene.events(), 100);
}

TEST(Outage, StopReturnsSoonWhileKafkaIsAwayOrPostgresDoesNotAnswer)
{
    Scene scene;
    TcpProxy to_kafka;
    TcpProxy to_postgres;
    to_postgres.forward_to(scene.server.port());
    scene.writer.write(scene.topic, "k", "{}", event_id(1));
    outbox::ConsumerOptions options = scene.options();
    options.close_timeout = Milliseconds(1000);
    options.conninfo = scene.server.conninfo(scene.database.name()) +
                       " host=127.0.0.1 port=" + std::to_string(to_postgres.port());
    {
        to_postgres.set(TcpProxy::Mode::kBlackHole);
        RunningConsumer consumer(options, &insert_effect);
        EXPECT_TRUE(wait_until(kSoon, [&] { return consumer.logged("connecting to PostgreSQL"); }));
        const auto start = Clock::now();
        consumer.finish();
        EXPECT_LT(since(start), Milliseconds(3000));
    }
    options.bootstrap_servers = "127.0.0.1:" + std::to_string(to_kafka.port());
    to_kafka.set(TcpProxy::Mode::kCut);
    RunningConsumer consumer(options, &insert_effect);
    EXPECT_TRUE(wait_until(kSoon, [&] { return consumer.logged("_TRANSPORT"); }));
    const auto start = Clock::now();
    consumer.finish();
    EXPECT_LT(since(start), Milliseconds(3000));
}

TEST(Outage, AConsumerReachesTheSecondHostWhenTheFirstIsSilent)
{
    Scene scene;
    TcpProxy silent;
    silent.forward_to(scene.server.port());
    silent.set(TcpProxy::Mode::kBlackHole);
    scene.writer.write(scene.topic, "k", "{}", event_id(1));
    outbox::ConsumerOptions options = scene.options();
    options.conninfo +=
        " connect_timeout=2 host=127.0.0.1,127.0.0.1 port=" + std::to_string(silent.port()) + "," +
        std::to_string(scene.server.port());
    RunningConsumer consumer(options, &insert_effect);
    EXPECT_TRUE(scene.reaches(1));
    consumer.finish();
}

// More than fits into the socket's buffers, so that the client waits while it sends.
TEST(Outage, StopReturnsSoonThoughTheServerReadsNoneOfALargeBatch)
{
    constexpr int kRecords = 10000;
    Scene scene;
    for (int i = 0; i < kRecords; ++i)
        scene.writer.send(scene.topic, "k", "{}", event_id(i), {}, 0);
    scene.writer.flush();
    std::string folder = "/tmp/outbox-stall-XXXXXX"; // short enough for a socket
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    StallingServer server(scene.server.socket_dir() /
                              (".s.PGSQL." + std::to_string(scene.server.port())),
                          folder, "mark_processed_many");
    outbox::ConsumerOptions options = scene.options();
    options.conninfo += server.conninfo();
    options.batch = kRecords;
    options.close_timeout = Milliseconds(2000);
    {
        RunningConsumer consumer(options, &insert_effect);
        ASSERT_TRUE(wait_until(kSoon, [&] { return server.stalled(); })) << consumer.log();
        ASSERT_TRUE(wait_until(kSoon, [&] { return server.full(); }));
        const auto start = Clock::now();
        consumer.stop();
        EXPECT_EQ(consumer.join(Milliseconds(10000)), nullptr);
        EXPECT_LT(since(start), Milliseconds(10000));
        server.end();
    }
    std::filesystem::remove_all(folder);
    EXPECT_EQ(scene.effects(), 0);
}

// A statement is running, and neither it nor the request to cancel it gets an answer.
TEST(Outage, StopReturnsSoonThoughTheServerIsSilentInTheMiddle)
{
    Scene scene;
    TcpProxy proxy;
    proxy.forward_to(scene.server.port());
    outbox::ConsumerOptions options = scene.options();
    options.conninfo += " host=127.0.0.1 port=" + std::to_string(proxy.port());
    Db other = scene.database.connect();
    other.exec("begin");
    other.exec("select outbox.mark_processed($1, $2)", event_id(1), options.consumer);
    scene.writer.write(scene.topic, "k", "{}", event_id(1));
    RunningConsumer consumer(options, &insert_effect);
    ASSERT_TRUE(scene.consumer_waits());
    proxy.set(TcpProxy::Mode::kBlackHole);
    const auto start = Clock::now();
    consumer.finish();
    EXPECT_LT(since(start), Milliseconds(5000));
    proxy.set(TcpProxy::Mode::kCut);
    other.exec("rollback");
}

// What a proxy does whose server is gone: connections stay, and nothing comes any more.
TEST(Outage, StopReturnsThoughTheServerIsSilentAtTheEndOfATransaction)
{
    for (const bool fails : {true, false})
    {
        Scene scene;
        TcpProxy proxy;
        proxy.forward_to(scene.server.port());
        scene.writer.write(scene.topic, "k", "{}", event_id(1));
        outbox::ConsumerOptions options = scene.options();
        options.conninfo += " host=127.0.0.1 port=" + std::to_string(proxy.port());
        std::atomic<bool> called{false};
        RunningConsumer consumer(options,
                                 [&](PGconn *transaction, const outbox::Record &record)
                                 {
                                     insert_effect(transaction, record);
                                     proxy.set(TcpProxy::Mode::kBlackHole);
                                     called = true;
                                     if (fails)
                                         throw std::runtime_error("and no rollback");
                                 });
        ASSERT_TRUE(wait_until(kSoon, [&] { return called.load(); }));
        const auto start = Clock::now();
        consumer.finish();
        // A commit is waited for; a rollback could do without an answer.
        EXPECT_LT(since(start), std::chrono::seconds(fails ? 9 : 18));
        proxy.set(TcpProxy::Mode::kCut);
    }
}

// As one whose disk is full: it takes connections, and statements, and ends with every commit.
TEST(Outage, AServerThatEndsAtEveryCommitIsNotTheRecordsFaultButOneThatEndsAtItsCommitIs)
{
    Scene scene;
    scene.db.exec("create function end_backend() returns trigger language plpgsql as $$ begin"
                  " perform pg_terminate_backend(pg_backend_pid()); return null; end $$;"
                  " create constraint trigger late after insert on effects"
                  " deferrable initially deferred for each row"
                  " when (new.event_id = '" +
                  event_id(2) + "') execute function end_backend()");
    TcpProxy proxy;
    proxy.forward_to(scene.server.port());
    proxy.cut_at("refuse_commit = 0; commit", 25);
    for (int i = 1; i <= 3; ++i)
        scene.writer.write(scene.topic, "k", "{}", event_id(i), {}, 0);
    outbox::ConsumerOptions options = scene.options();
    options.max_attempts = 2;
    options.backoff_max = Milliseconds(20);
    options.conninfo += " host=127.0.0.1 port=" + std::to_string(proxy.port());
    RunningConsumer consumer(options, &insert_effect);
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    EXPECT_EQ(proxy.cuts_left(), 0);
    EXPECT_EQ(scene.effects(), 2);
    const std::vector<Record> letters = scene.dead_letters(1);
    ASSERT_EQ(letters.size(), 1U);
    EXPECT_EQ(letters.front().header("id"), event_id(2));
}
