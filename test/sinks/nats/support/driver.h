// A sink of NATS's with one who listens, as the engine does.
#pragma once

#include "bgworker/sinks/nats/sink.h"

#include "test/support/wait.h"

#include <map>
#include <memory>
#include <poll.h>
#include <string>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace outbox::test
{

inline nats::Settings
nats_settings(const std::string &url, const std::string &subject = "{topic}")
{
    nats::Settings settings;
    settings.servers = {url};
    settings.client_id = "outbox-test";
    (void) settings.subject.compile(subject);
    settings.timeout_ms = 2000;
    settings.backoff_initial_ms = 20;
    settings.backoff_max_ms = 200;
    return settings;
}

struct NatsRecord
{
    std::string topic = {};
    std::string key = {};
    std::string value = {};
    std::string id = {}; // empty: made from the tag
    std::vector<std::pair<std::string, std::string>> headers = {};
    bool tombstone = false;
};

class NatsDriver final : public SinkListener
{
public:
    explicit NatsDriver(const nats::Settings &settings, int patience_ms = 300,
                        bool renews_limit = false)
        : wake_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
    {
        Failure why;
        sink = nats::NatsSink::create(settings, {patience_ms, renews_limit}, wake_fd, why);
    }
    ~NatsDriver() override
    {
        sink.reset();
        (void) close(wake_fd);
    }

    // Returns its tag.
    std::uint64_t produce(const NatsRecord &record)
    {
        while (try_produce(record) == ProduceResult::queue_full)
            serve(20);
        return last_tag;
    }

    ProduceResult try_produce(const NatsRecord &given)
    {
        const std::string id = !given.id.empty() ? given.id : "id-" + std::to_string(last_tag + 1);
        std::vector<Header> headers;
        headers.push_back({"id", id});
        headers.push_back({"event_type", "t.made"});
        headers.push_back({"aggregate_type", "thing"});
        for (const auto &header : given.headers)
            headers.push_back({header.first, header.second});
        Record record;
        record.topic = given.topic;
        record.key = given.key;
        record.value = given.value.data();
        record.value_size = given.value.size();
        record.tombstone = given.tombstone;
        record.headers = headers.data();
        record.header_count = headers.size();
        record.tag = last_tag + 1;
        last_failure = {};
        const ProduceResult result = sink->produce(record, last_failure);
        if (result == ProduceResult::queued)
            last_tag++;
        return result;
    }

    void serve(int wait_ms, std::size_t most = 1000)
    {
        pollfd fd = {wake_fd, POLLIN, 0};
        (void) ::poll(&fd, 1, wait_ms);
        (void) sink->serve(*this, most);
    }

    template <class Condition> bool until(Condition &&condition, int limit_ms = 15000)
    {
        return wait_until(Milliseconds(limit_ms),
                          [&]
                          {
                              serve(5);
                              return condition();
                          });
    }
    bool until_empty(int limit_ms = 15000)
    {
        return until([&] { return sink->outstanding() == 0; }, limit_ms);
    }

    void delivered(std::uint64_t tag) noexcept override { delivered_tags.push_back(tag); }
    void failed(std::uint64_t tag, const Failure &failure) noexcept override
    {
        failures.emplace_back(tag, failure);
        queued_at_failure.push_back(last_tag);
    }
    void trouble(const Failure &failure) noexcept override
    {
        troubles++;
        last_trouble = failure;
        texts += std::string(failure.name) + ": " + failure.text + " " + failure.hint + "\n";
    }
    void log(int, const char *, const char *text) noexcept override { texts += text; }

    // "3:event:NAME ", with "~" for a consequence.
    std::string failed_text() const
    {
        std::string text;
        for (const auto &[tag, failure] : failures)
            text += std::to_string(tag) + ":" + name_of(failure.cls) + ":" +
                    (failure.consequence ? "~" : failure.name) + " ";
        return text;
    }

    int wake_fd;
    std::unique_ptr<nats::NatsSink> sink;
    std::uint64_t last_tag = 0;
    Failure last_failure;
    std::vector<std::uint64_t> delivered_tags;
    std::vector<std::pair<std::uint64_t, Failure>> failures;
    std::vector<std::uint64_t> queued_at_failure; // the last tag when it was told
    int troubles = 0;
    Failure last_trouble;
    std::string texts;
};

} // namespace outbox::test
