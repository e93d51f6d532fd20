// A Kafka that does nothing but describe topics.
#pragma once

#include "support/listener.h"

#include <atomic>
#include <cstddef>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>

namespace outbox::test
{

// Has the topics that it was told of, with one partition each, makes none when it is asked for
// others, and keeps account of what it is asked. librdkafka's mock cluster takes a second for each
// topic that it is told to have not.
class MetadataBroker
{
public:
    MetadataBroker();
    ~MetadataBroker();
    MetadataBroker(const MetadataBroker &) = delete;
    MetadataBroker &operator=(const MetadataBroker &) = delete;

    std::string bootstrap() const { return "127.0.0.1:" + std::to_string(listener_.port()); }
    void create_topic(const std::string &topic);
    // How many topics the longest question named, and how many different ones it was asked for.
    std::size_t longest_question() const;
    std::size_t names_asked_for() const;

private:
    struct Connection
    {
        int socket;
        std::string received;
    };

    void run();
    bool serve(Connection &connection);
    std::string answer(std::string_view request);
    std::string describe(std::string_view names);

    Listener listener_;
    std::atomic<bool> stopping_ = false;
    mutable std::mutex mutex_;
    std::set<std::string> topics_;
    std::set<std::string> asked_for_;
    std::size_t longest_ = 0;
    std::thread thread_;
};

} // namespace outbox::test
