// What the tests of bgworker/sinks/http share.
#pragma once

#include "bgworker/sinks/http/http_destination.h"
#include "bgworker/sinks/http/setup.h"
#include "support/http_server.h"
#include "support/wait.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace outbox::test
{

constexpr Milliseconds kWebhookLimit = std::chrono::seconds(20);

// The key of this is "0123456789abcdef01234567" in ASCII.
constexpr const char *kSecret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3";

// A file for one test.
class TextFile
{
public:
    explicit TextFile(const std::string &content);
    ~TextFile();
    TextFile(const TextFile &) = delete;
    TextFile &operator=(const TextFile &) = delete;

    const std::string &path() const { return path_; }
    void write(const std::string &content) const;

private:
    std::string path_;
};

// Options of a test: text values.
using Given = std::vector<std::pair<std::string, std::string>>;
SinkOptions options_of(const Given &given);

// Remembers everything it is told.
struct Heard : SinkListener
{
    void delivered(std::uint64_t tag) noexcept override
    {
        acked.push_back(tag);
        if (on_result)
            on_result();
    }
    void failed(std::uint64_t tag, const Failure &failure) noexcept override
    {
        failures.emplace_back(tag, failure);
        if (on_result)
            on_result();
    }
    void trouble(const Failure &failure) noexcept override { troubles.push_back(failure); }
    void log(int, const char *, const char *) noexcept override {}

    std::size_t results() const { return acked.size() + failures.size(); }

    std::vector<std::uint64_t> acked;
    std::vector<std::pair<std::uint64_t, Failure>> failures;
    std::vector<Failure> troubles;
    std::function<void()> on_result;
};

// A sink that is driven as the relay drives it: served only when its descriptor says so.
class Webhooks
{
public:
    // Of this endpoint; `given` is added to the options. Retries quickly.
    explicit Webhooks(const std::string &url, const Given &given = {},
                      const std::function<void(http::Setup &)> &adjust = nullptr);

    void produce(std::uint64_t tag, const std::string &key, const std::string &value = "{}",
                 const std::vector<Header> &more = {});
    bool serve_until(const std::function<bool()> &condition, Milliseconds limit = kWebhookLimit);
    bool settle(std::size_t results)
    {
        return serve_until([&] { return heard.results() >= results; });
    }
    // A sink of another use beside the first one.
    std::unique_ptr<Sink> open(Destination::Use use);

    Heard heard;
    http::Setup setup;
    std::unique_ptr<http::HttpDestination> destination;
    std::unique_ptr<Sink> sink;
};

// Queues a record whose id is made of the tag.
ProduceResult produce_to(Sink &sink, std::uint64_t tag, const std::string &key,
                         const std::string &value, const std::vector<Header> &more, Failure &why);
std::string id_of(std::uint64_t tag);

} // namespace outbox::test
