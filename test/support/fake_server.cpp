#include "fake_server.h"

#include <poll.h>

#include "tree.h"

namespace outbox::test
{

namespace
{

std::string
number(uint32_t value, size_t bytes)
{
    std::string result;
    while (bytes-- > 0)
        result += static_cast<char>(value >> (8 * bytes) & 0xff);
    return result;
}

} // namespace

const std::string kLetIn = message('R', std::string(4, '\0')) +
                           message('S', text("server_encoding") + text("UTF8")) +
                           message('S', text("client_encoding") + text("UTF8"));
const std::string kReady = message('Z', "I");

std::string
message(char type, const std::string &body)
{
    return type + number(static_cast<uint32_t>(body.size() + 4), 4) + body;
}

std::string
text(const std::string &value)
{
    return value + '\0';
}

std::string
report(const std::string &severity, const std::string &sqlstate, const std::string &words,
       char type)
{
    std::string body = "S" + text(severity) + "V" + text(severity) + "C" + text(sqlstate);
    for (const char field : {'M', 'D', 'H'})
        body += field + text(words);
    return message(type, body + '\0');
}

std::string
no_row(const std::vector<Column> &columns)
{
    std::string description = number(static_cast<uint32_t>(columns.size()), 2);
    for (const Column &column : columns)
        description += text(column.name) + number(0, 6) +
                       number(static_cast<uint32_t>(column.type), 4) + number(0xffff, 2) +
                       number(0xffffffff, 4) + number(0, 2);
    return message('T', description);
}

std::string
one_row(const std::vector<Column> &columns)
{
    std::string row = number(static_cast<uint32_t>(columns.size()), 2);
    for (const Column &column : columns)
        row += number(static_cast<uint32_t>(column.value.size()), 4) + column.value;
    return no_row(columns) + message('D', row);
}

bool
asks_for_extension(const std::string &sql)
{
    return sql.find("from (select) one left join pg_extension") != std::string::npos;
}

std::string
extension_is_there()
{
    return no_row({{"own", 25, ""}, {"taken", 16, ""}}) + message('C', text("SELECT 0"));
}

bool
Conversation::say(const std::string &bytes) const
{
    for (size_t sent = 0; sent < bytes.size();)
    {
        const ssize_t count = send(client_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
        if (count <= 0)
            return false;
        sent += static_cast<size_t>(count);
    }
    return true;
}

void
Conversation::flood(const std::function<std::string(int)> &more, int pause_ms) const
{
    std::string bytes;
    for (int i = 0; !ended_; i++)
    {
        bytes += more(i);
        if (pause_ms == 0 && bytes.size() < 65536)
            continue;
        if (!say(bytes) || (pause_ms > 0 && gone(pause_ms)))
            return;
        bytes.clear();
    }
}

bool
Conversation::receive(std::string &bytes, size_t count) const
{
    bytes.resize(count);
    for (size_t received = 0; received < count;)
    {
        const ssize_t part = recv(client_, bytes.data() + received, count - received, 0);
        if (part <= 0)
            return false;
        received += static_cast<size_t>(part);
    }
    return true;
}

std::string
Conversation::startup() const
{
    std::string length;
    std::string body;
    if (!receive(length, 4))
        return "";
    uint32_t size = 0;
    for (const char c : length)
        size = size << 8 | static_cast<unsigned char>(c);
    return receive(body, size - 4) ? body : "";
}

bool
Conversation::hear(char &type, std::string &body, size_t most) const
{
    std::string head;
    if (!receive(head, 5))
        return false;
    type = head[0];
    uint32_t size = 0;
    for (const char c : head.substr(1))
        size = size << 8 | static_cast<unsigned char>(c);
    return size <= most && receive(body, size - 4);
}

bool
Conversation::gone(int limit_ms) const
{
    pollfd client = {client_, POLLRDHUP, 0};
    return poll(&client, 1, limit_ms) != 0;
}

void
Conversation::go_deaf() const
{
    while (!ended_ && !gone(50))
        continue;
}

void
Conversation::serve(const std::function<std::string(const std::string &sql)> &answer, size_t most,
                    const std::string &welcome) const
{
    char type = 0;
    std::string body;
    std::string sql;
    for (bool listens = say(welcome); listens && hear(type, body, most);)
        if (type == 'Q')
            listens = say(message('C', text("BEGIN")) + kReady);
        else if (type == 'P')
            sql = body.substr(body.find('\0') + 1);
        else if (type == 'S')
            listens = say(message('1', "") + message('2', "") + answer(sql.c_str()) + kReady);
}

FakeServer::FakeServer(std::function<void(const Conversation &)> serve) : serve_(std::move(serve))
{
    thread_ = std::thread(
        [this]
        {
            for (int client = listener_.accept(); client >= 0; client = listener_.accept())
            {
                serve_(Conversation(client, ended_));
                (void) close(client);
            }
        });
}

FakeServer::~FakeServer()
{
    ended_ = true;
    listener_.end();
    thread_.join();
}

std::map<std::string, std::string>
FakeServer::environment() const
{
    return {{"PGHOST", "127.0.0.1"},  {"PGPORT", std::to_string(port())},
            {"PGUSER", "u"},          {"PGDATABASE", "d"},
            {"PGSSLMODE", "disable"}, {"PGGSSENCMODE", "disable"}};
}

std::map<std::string, std::string>
with_fast_clock(std::map<std::string, std::string> environment, const std::string &from)
{
    if (!from.empty())
        environment["OUTBOX_TEST_FAST_FROM"] = from;
    environment["ASAN_OPTIONS"] = "detect_leaks=0:verify_asan_link_order=0";
    environment["LD_PRELOAD"] = in_build("test/fast_clock.so");
    return environment;
}

} // namespace outbox::test
