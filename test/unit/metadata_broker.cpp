#include "metadata_broker.h"

#include <algorithm>
#include <iterator>
#include <poll.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace outbox::test
{

namespace
{

constexpr int kMetadata = 3;
constexpr int kApiVersions = 18;
constexpr int kUnsupportedVersion = 35;
constexpr int kUnknownTopic = 3;
constexpr int kNode = 1;

// Numbers of Kafka's protocol, most significant byte first.
std::string
number(long value, int bytes)
{
    std::string text;
    for (int i = bytes - 1; i >= 0; i--)
        text += static_cast<char>((value >> (8 * i)) & 0xff);
    return text;
}

std::string
int16(long value)
{
    return number(value, 2);
}

std::string
int32(long value)
{
    return number(value, 4);
}

std::string
string(std::string_view text)
{
    return int16(static_cast<long>(text.size())).append(text);
}

// Takes a number from the front.
long
take(std::string_view &text, std::size_t bytes)
{
    if (text.size() < bytes)
        throw std::runtime_error("a request ends early");
    long value = static_cast<signed char>(text[0]);
    for (std::size_t i = 1; i < bytes; i++)
        value = value * 256 + static_cast<unsigned char>(text[i]);
    text.remove_prefix(bytes);
    return value;
}

std::string_view
take_string(std::string_view &text)
{
    const auto size = static_cast<std::size_t>(std::max(take(text, 2), 0L));
    const std::string_view taken = text.substr(0, size);
    text.remove_prefix(taken.size());
    return taken;
}

// Only what a producer must find before it asks for topics; nothing that comes after is answered.
std::string
versions(long version)
{
    struct Api
    {
        int key;
        int latest;
    };
    constexpr Api kApis[] = {{0, 7}, {1, 11}, {kMetadata, 1}, {kApiVersions, 0}, {22, 0}};
    std::string text = int16(version == 0 ? 0 : kUnsupportedVersion) + int32(std::size(kApis));
    for (const Api &api : kApis)
        text += int16(api.key) + int16(0) + int16(api.latest);
    return text;
}

} // namespace

MetadataBroker::MetadataBroker() : thread_([this] { run(); }) {}

MetadataBroker::~MetadataBroker()
{
    stopping_ = true;
    listener_.end(); // wakes the thread
    thread_.join();
}

void
MetadataBroker::create_topic(const std::string &topic)
{
    const std::lock_guard<std::mutex> lock(mutex_);
    topics_.insert(topic);
}

std::size_t
MetadataBroker::longest_question() const
{
    const std::lock_guard<std::mutex> lock(mutex_);
    return longest_;
}

std::size_t
MetadataBroker::names_asked_for() const
{
    const std::lock_guard<std::mutex> lock(mutex_);
    return asked_for_.size();
}

void
MetadataBroker::run()
{
    std::vector<Connection> connections;
    while (!stopping_)
    {
        std::vector<pollfd> wanted = {{listener_.fd(), POLLIN, 0}};
        for (const Connection &connection : connections)
            wanted.push_back({connection.socket, POLLIN, 0});
        poll(wanted.data(), wanted.size(), -1);
        for (std::size_t i = connections.size(); i > 0; i--)
        {
            if (wanted[i].revents == 0 || serve(connections[i - 1]))
                continue;
            close(connections[i - 1].socket);
            connections.erase(connections.begin() + static_cast<long>(i) - 1);
        }
        if (wanted[0].revents == 0 || stopping_)
            continue;
        const int socket = listener_.accept();
        if (socket != -1)
            connections.push_back({socket, ""});
    }
    for (const Connection &connection : connections)
        close(connection.socket);
}

bool
MetadataBroker::serve(Connection &connection)
{
    char bytes[65536];
    const ssize_t count = recv(connection.socket, bytes, sizeof bytes, 0);
    if (count <= 0)
        return false;
    connection.received.append(bytes, static_cast<std::size_t>(count));
    for (;;)
    {
        std::string_view rest = connection.received;
        if (rest.size() < 4)
            return true;
        const auto size = static_cast<std::size_t>(take(rest, 4));
        if (rest.size() < size)
            return true;
        const std::string reply = answer(rest.substr(0, size));
        connection.received.erase(0, 4 + size);
        for (std::size_t sent = 0; sent < reply.size();)
        {
            const ssize_t more =
                send(connection.socket, reply.data() + sent, reply.size() - sent, MSG_NOSIGNAL);
            if (more <= 0)
                return false;
            sent += static_cast<std::size_t>(more);
        }
    }
}

std::string
MetadataBroker::answer(std::string_view request)
{
    const long key = take(request, 2);
    const long version = take(request, 2);
    std::string text = int32(take(request, 4));
    (void) take_string(request); // the client's name
    if (key == kApiVersions)
        text += versions(version);
    else if (key == kMetadata)
        text += describe(request);
    else
        return "";
    return int32(static_cast<long>(text.size())) + text;
}

std::string
MetadataBroker::describe(std::string_view request)
{
    const std::lock_guard<std::mutex> lock(mutex_);
    const long count = take(request, 4);
    std::vector<std::string> names;
    if (count == -1)
        names.assign(topics_.begin(), topics_.end());
    for (long i = 0; i < count; i++)
        names.emplace_back(take_string(request));
    if (count > 0)
    {
        longest_ = std::max(longest_, names.size());
        asked_for_.insert(names.begin(), names.end());
    }
    std::string text =
        int32(1) + int32(kNode) + string("127.0.0.1") + int32(listener_.port()) + int16(-1);
    text += int32(kNode) + int32(static_cast<long>(names.size()));
    for (const std::string &name : names)
    {
        const bool there = topics_.count(name) > 0;
        text += int16(there ? 0 : kUnknownTopic) + string(name) + number(0, 1) + int32(there);
        if (there)
            text += int16(0) + int32(0) + int32(kNode) + int32(1) + int32(kNode) + int32(1) +
                    int32(kNode);
    }
    return text;
}

} // namespace outbox::test
