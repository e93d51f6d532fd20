// Several hosts, of which some do not answer.
#include <cstdlib>
#include <fstream>

#include "client/src/connect.h"
#include "client/src/sql.h"
#include "harness.h"
#include "support/fake_server.h"
#include "support/tcp_proxy.h"

using namespace outbox::test;
using outbox::v0::detail::Connector;
using outbox::v0::detail::StopFlag;

namespace
{

// A host that accepts connections and never answers.
struct SilentHost
{
    SilentHost()
    {
        proxy.forward_to(cluster().port());
        proxy.set(TcpProxy::Mode::kBlackHole);
    }
    std::string port() const { return std::to_string(proxy.port()); }
    TcpProxy proxy;
};

std::string
good_port()
{
    return std::to_string(cluster().port());
}

std::string
conninfo_without_host()
{
    // A later setting wins.
    return cluster().conninfo("postgres") + " host='' ";
}

// The SQLSTATE, and what was said.
std::pair<std::string, std::string>
failure_of(const std::string &conninfo)
{
    const StopFlag never;
    try
    {
        (void) Connector(conninfo, "test").connect(never);
    }
    catch (const outbox::Error &error)
    {
        return {error.code(), error.what()};
    }
    return {};
}

} // namespace

// As from a server that answers a statement with nothing: no error says what is wrong.
TEST(Hosts, AnAnswerThatIsNoResultIsAnErrorWithWords)
{
    const StopFlag never;
    const outbox::v0::detail::Connection connection =
        Connector(cluster().conninfo("postgres"), "test").connect(never);
    std::string what;
    try
    {
        (void) outbox::v0::detail::exec(connection.get(), "");
    }
    catch (const outbox::DatabaseError &error)
    {
        what = error.what();
        EXPECT_EQ(error.code(), "58000");
    }
    EXPECT_EQ(what, "the server answered with PGRES_EMPTY_QUERY");
}

TEST(Hosts, EachHasItsTimeAndTheFirstThatAnswersIsTaken)
{
    const SilentHost silent;
    const StopFlag never;
    const std::string base = conninfo_without_host();
    const auto start = Clock::now();
    const auto connection =
        Connector(base + "connect_timeout=2 host=127.0.0.1,no-such-host.invalid,127.0.0.1 port=" +
                      silent.port() + ",1," + good_port(),
                  "test")
            .connect(never);
    EXPECT_EQ(PQport(connection.get()), good_port());
    EXPECT_GE(since(start), Milliseconds(1900));
    EXPECT_LT(since(start), Milliseconds(15000));
    const auto by_address =
        Connector(base + "hostaddr=127.0.0.1,127.0.0.1 port=1," + good_port(), "test")
            .connect(never);
    EXPECT_EQ(PQport(by_address.get()), good_port());
    // A name may have more addresses than the server listens on.
    EXPECT_TRUE(Connector(base + "host=localhost port=" + good_port(), "test").connect(never));

    const auto [code, text] = failure_of(base +
                                         "connect_timeout=1 password=hidden host=127.0.0.1,"
                                         "no-such-host.invalid,127.0.0.1 port=1,2," +
                                         silent.port());
    EXPECT_EQ(code, "08001");
    EXPECT_NE(text.find("port 1 failed"), std::string::npos) << text;
    EXPECT_NE(text.find("no answer within 2 s from 127.0.0.1:" + silent.port()), std::string::npos)
        << text;
    EXPECT_EQ(text.find("hidden"), std::string::npos);
}

// Notices, parameters, which libpq keeps, and questions for the password, whose answers nobody
// reads.
TEST(Hosts, OneThatSendsWithoutEndIsLeftAtOnceAndOneThatTricklesInItsTime)
{
    const std::vector<std::function<std::string(int)>> floods = {
        [](int i) { return (i == 0 ? kLetIn : "") + report("NOTICE", "00000", "and so on", 'N'); },
        [](int i)
        {
            return (i == 0 ? kLetIn : "") +
                   message('S', text("p" + std::to_string(i)) + text(std::string(20000, 'x')));
        },
        [](int) { return message('R', std::string("\0\0\0\3", 4)); }};
    for (std::size_t kind = 0; kind < floods.size(); ++kind)
        for (const int pause_ms : {0, 20})
        {
            SCOPED_TRACE(std::to_string(kind) + " " + std::to_string(pause_ms));
            const FakeServer server(
                [&](const Conversation &client)
                {
                    if (!client.startup().empty())
                        client.flood(floods[kind], pause_ms);
                });
            const std::string conninfo =
                conninfo_without_host() +
                "sslmode=disable gssencmode=disable password=" + std::string(2000, 'p') +
                " connect_timeout=" + (pause_ms == 0 ? "25" : "2") + " host=127.0.0.1";
            const std::string port = std::to_string(server.port());
            const StopFlag never;
            testing::internal::CaptureStderr();
            const auto start = Clock::now();
            const auto [code, what] = failure_of(conninfo + " port=" + port);
            EXPECT_TRUE(Connector(conninfo + ",127.0.0.1 port=" + port + "," + good_port(), "test")
                            .connect(never));
            EXPECT_LT(since(start), std::chrono::seconds(20));
            EXPECT_LT(testing::internal::GetCapturedStderr().size(), 10000U);
            EXPECT_EQ(code, "08001");
            if (kind < 2)
            {
                EXPECT_NE(what.find(pause_ms == 0 ? "sends without end instead of letting us in"
                                                  : "did not let us in within 2 s"),
                          std::string::npos)
                    << what;
            }
        }
}

TEST(Hosts, TheKindOfServerThatIsAskedForIsLookedFor)
{
    const StopFlag never;
    const std::string base = conninfo_without_host() +
                             "host=127.0.0.1,127.0.0.1 port=" + good_port() + "," + good_port() +
                             " target_session_attrs=";
    EXPECT_TRUE(Connector(base + "primary", "test").connect(never));
    EXPECT_TRUE(Connector(base + "prefer-standby", "test").connect(never));
    const auto [code, text] = failure_of(base + "standby");
    EXPECT_EQ(code, "08001");
    EXPECT_NE(text.find("not in hot standby"), std::string::npos) << text;
    if (PQlibVersion() >= 160000)
    {
        EXPECT_TRUE(Connector(base + "any load_balance_hosts=random", "test").connect(never));
    }
}

TEST(Hosts, ListsThatDoNotFitAndTimesThatAreNoneAreErrors)
{
    const std::string base = conninfo_without_host();
    EXPECT_EQ(failure_of(base + "host=a,b,c port=1,2").first, "08001");
    EXPECT_EQ(failure_of(base + "host=a,b hostaddr=127.0.0.1").first, "08001");
    for (const char *timeout : {"soon", "2s", "1.5"})
        EXPECT_EQ(failure_of(base + "host=127.0.0.1 connect_timeout=" + timeout).first, "22023");
    EXPECT_EQ(failure_of(base + "connect_timeout=' 2 ' host=127.0.0.1 port=" + good_port()).first,
              "");
    EXPECT_EQ(code_of([] { const Connector connector("host=", "x"), other("no such thing", "x"); }),
              "22023");
}

TEST(Hosts, AServiceAndTheEnvironmentCountAsForLibpq)
{
    const SilentHost silent;
    const StopFlag never;
    const std::string file = (run_dir() / "services.conf").string();
    std::ofstream(file) << "[books]\nhost=127.0.0.1,127.0.0.1\nport=" << silent.port() << ","
                        << good_port() << "\ndbname=postgres\nconnect_timeout=2\n";
    setenv("PGSERVICEFILE", file.c_str(), 1);
    const std::string user =
        " user=" +
        std::string(PQuser(Connector(cluster().conninfo("postgres"), "test").connect(never).get()));
    EXPECT_TRUE(Connector("service=books" + user, "test").connect(never));
    unsetenv("PGSERVICEFILE");
    setenv("PGPORT", good_port().c_str(), 1);
    EXPECT_TRUE(Connector("dbname=postgres host=127.0.0.1" + user, "test").connect(never));
    unsetenv("PGPORT");
}
