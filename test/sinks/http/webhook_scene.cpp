#include "webhook_scene.h"

#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace outbox::test
{

TextFile::TextFile(const std::string &content)
{
    char name[] = "/tmp/outbox-file.XXXXXX";
    const int fd = mkstemp(name);
    if (fd < 0)
        throw std::runtime_error("no file");
    (void) close(fd);
    path_ = name;
    write(content);
}

TextFile::~TextFile()
{
    (void) unlink(path_.c_str());
}

void
TextFile::write(const std::string &content) const
{
    std::ofstream(path_, std::ios::trunc) << content;
}

SinkOptions
options_of(const Given &given)
{
    SinkOptions options;
    for (const auto &[name, value] : given)
        options.set_text(name, value);
    return options;
}

std::string
id_of(std::uint64_t tag)
{
    char id[40];
    (void) std::snprintf(id, sizeof id, "019c0e6b-90a7-7a22-8000-%012llx",
                         static_cast<unsigned long long>(tag));
    return id;
}

ProduceResult
produce_to(Sink &sink, std::uint64_t tag, const std::string &key, const std::string &value,
           const std::vector<Header> &more, Failure &why)
{
    const std::string id = id_of(tag);
    std::vector<Header> headers = {{"ce_specversion", "1.0"},
                                   {"ce_id", id},
                                   {"ce_source", "/shop"},
                                   {"ce_type", "order.created"},
                                   {"ce_time", "2026-01-31T09:05:00.000123Z"},
                                   {"ce_subject", key},
                                   {"ce_aggregatetype", "order"}};
    headers.insert(headers.end(), more.begin(), more.end());
    Record record;
    record.topic = "orders";
    record.key = key;
    record.value = value.data();
    record.value_size = value.size();
    record.headers = headers.data();
    record.header_count = headers.size();
    record.tag = tag;
    return sink.produce(record, why);
}

Webhooks::Webhooks(const std::string &url, const Given &given,
                   const std::function<void(http::Setup &)> &adjust)
{
    (void) std::signal(SIGPIPE, SIG_IGN); // as in a server's process
    const TextFile secret(std::string(kSecret) + "\n");
    Given all = {{"url", url}, {"secret_file", secret.path()}};
    all.insert(all.end(), given.begin(), given.end());
    OptionFault fault;
    if (!http::read_options(options_of(all), setup.options, fault))
        throw std::runtime_error(fault.message);
    (void) http::parse_url(setup.options.url, setup.endpoint, fault);
    setup.backoff_initial_ms = 20;
    setup.backoff_max_ms = 200;
    if (adjust)
        adjust(setup);
    Failure why;
    if (!http::read_files("/", setup, why))
        throw std::runtime_error(why.text);
    destination = std::make_unique<http::HttpDestination>(http::Station::make(setup));
    sink = open(Destination::Use::stream);
}

std::unique_ptr<Sink>
Webhooks::open(Destination::Use use)
{
    Failure why;
    auto opened = destination->open(use, 0, why);
    if (!opened)
        throw std::runtime_error(why.text);
    return opened;
}

void
Webhooks::produce(std::uint64_t tag, const std::string &key, const std::string &value,
                  const std::vector<Header> &more)
{
    Failure why;
    ASSERT_EQ(produce_to(*sink, tag, key, value, more, why), ProduceResult::queued) << why.text;
}

bool
Webhooks::serve_until(const std::function<bool()> &condition, Milliseconds limit)
{
    const auto deadline = Clock::now() + limit;
    sink->send_now();
    while (!condition())
    {
        if (Clock::now() >= deadline)
            return false;
        pollfd look = {destination->wake_fd(Destination::Use::stream), POLLIN, 0};
        if (poll(&look, 1, 50) > 0)
            (void) sink->serve(heard, 100);
    }
    return true;
}

} // namespace outbox::test
