// A server that never stops talking.
#include <atomic>
#include <cstring>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ctl.h"
#include "support/tree.h"

namespace outbox::test
{

namespace
{

// A message of PostgreSQL's protocol.
std::string
message(char type, const std::string &body)
{
    const uint32_t size = htonl(static_cast<uint32_t>(body.size() + 4));
    std::string bytes(1, type);
    bytes.append(reinterpret_cast<const char *>(&size), sizeof size);
    return bytes + body;
}

std::string
text(const std::string &value)
{
    return value + '\0';
}

const std::string kIn = message('R', std::string(4, '\0')) +
                        message('S', text("server_encoding") + text("UTF8")) +
                        message('S', text("client_encoding") + text("UTF8"));
const std::string kReady = message('Z', "I");
const std::string kNotice =
    message('N', "S" + text("NOTICE") + "C" + text("00000") + "M" + text("and so on") + '\0');
// One column of text.
const std::string kColumn = message('T', std::string("\0\1", 2) + text("name") +
                                             std::string("\0\0\0\0\0\0\0\0\0\x19\xff\xff", 12) +
                                             std::string("\xff\xff\xff\xff\0\0", 6));
const std::string kRow = message('D', std::string("\0\1\0\0\0\1x", 7));
const std::string kDone = message('C', text("SELECT 1"));

// Says `begin` once it has let somebody in, or been asked if `asked`, and then `more` for ever.
class FloodingServer
{
public:
    FloodingServer(bool asked, std::string begin, const std::string &more)
        : asked_(asked), begin_(std::move(begin)), socket_(::socket(AF_INET, SOCK_STREAM, 0))
    {
        while (more_.size() < 65536)
            more_ += more;
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        auto *any = reinterpret_cast<sockaddr *>(&address);
        if (bind(socket_, any, size) != 0 || listen(socket_, 8) != 0 ||
            getsockname(socket_, any, &size) != 0)
            throw std::runtime_error("no flooding server");
        port_ = ntohs(address.sin_port);
        thread_ = std::thread([this] { serve(); });
    }
    ~FloodingServer()
    {
        (void) shutdown(socket_, SHUT_RDWR);
        thread_.join();
        (void) close(socket_);
    }
    FloodingServer(const FloodingServer &) = delete;
    FloodingServer &operator=(const FloodingServer &) = delete;

    Environment environment() const
    {
        return {{"PGHOST", "127.0.0.1"},
                {"PGPORT", std::to_string(port_)},
                {"PGUSER", "u"},
                {"PGDATABASE", "d"},
                {"PGSSLMODE", "disable"},
                {"PGGSSENCMODE", "disable"},
                {"ASAN_OPTIONS", "detect_leaks=0:verify_asan_link_order=0"},
                {"LD_PRELOAD", in_build("test/fast_clock.so")}};
    }

private:
    static bool say(int client, const std::string &bytes)
    {
        for (size_t sent = 0; sent < bytes.size();)
        {
            const ssize_t count =
                send(client, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
            if (count <= 0)
                return false;
            sent += static_cast<size_t>(count);
        }
        return true;
    }
    void serve()
    {
        for (int client = accept(socket_, nullptr, nullptr); client >= 0;
             client = accept(socket_, nullptr, nullptr))
        {
            char ignored[4096];
            bool listens = recv(client, ignored, sizeof ignored, 0) > 0 && say(client, kIn);
            if (asked_)
                listens =
                    listens && say(client, kReady) && recv(client, ignored, sizeof ignored, 0) > 0;
            listens = listens && say(client, begin_);
            while (listens)
                listens = say(client, more_);
            (void) close(client);
        }
    }

    const bool asked_;
    const std::string begin_;
    std::string more_;
    const int socket_;
    int port_ = 0;
    std::thread thread_;
};

TEST(Flood, AServerThatNeverStopsTalkingHasItsMinute)
{
    const std::vector<std::pair<std::string, std::string>> floods = {
        {"", kNotice}, {kColumn, kRow}, {"", kColumn + kRow + kDone}};
    for (const auto &[begin, more] : floods)
    {
        const FloodingServer server(true, begin, more);
        const auto start = Clock::now();
        const Ran ran = ctl(server.environment(), {"status"});
        EXPECT_EQ(ran.status, 3) << ran.err;
        EXPECT_LT(since(start), std::chrono::seconds(20));
    }
}

TEST(Flood, NorDoesOneHoldUpTheConnectionForEver)
{
    const FloodingServer server(false, "", kNotice);
    const Ran ran = ctl(server.environment(), {"status"});
    EXPECT_EQ(ran.status, 3) << ran.err;
    EXPECT_NE(ran.err.find("no connection was made within 10 minutes"), std::string::npos)
        << ran.err.substr(0, 1000);
}

} // namespace

} // namespace outbox::test
