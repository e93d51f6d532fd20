#include "bare_nats.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>

#include <fmt/format.h>
#include <nats/nats.h>

#include "bench/support/inputs.h"

namespace outbox::bench
{

namespace
{

constexpr int64_t kLimitMs = 300000;

void
check(natsStatus status, const char *what)
{
    if (status != NATS_OK)
        throw std::runtime_error(fmt::format("{}: {}", what, natsStatus_GetText(status)));
}

struct Destroy
{
    void operator()(natsConnection *connection) const { natsConnection_Destroy(connection); }
    void operator()(jsCtx *context) const { jsCtx_Destroy(context); }
};

struct Acknowledged
{
    std::atomic<int64_t> stored{0};
    std::atomic<int64_t> refused{0};
};

void
on_answer(jsCtx *, natsMsg *message, jsPubAck *stored, jsPubAckErr *, void *closure)
{
    auto &count = *static_cast<Acknowledged *>(closure);
    (stored != nullptr ? count.stored : count.refused)++;
    natsMsg_Destroy(message);
}

natsMsg *
make_message(const std::string &subject, const Input &input, const std::string &id)
{
    natsMsg *message = nullptr;
    check(natsMsg_Create(&message, subject.c_str(), nullptr, input.payload.data(),
                         static_cast<int>(input.payload.size())),
          "message");
    const auto set = [&](const char *name, const char *value)
    { check(natsMsgHeader_Set(message, name, value), "header"); };
    set("Nats-Msg-Id", id.c_str());
    set("Outbox-Key", input.key.c_str());
    set("id", id.c_str());
    set("event_type", kEventType);
    set("aggregate_type", "nats_1");
    set("created_at", "2026-01-31T09:05:00.000123Z");
    return message;
}

} // namespace

double
publish_bare_nats(const std::string &url, const std::string &subject, int64_t events,
                  std::size_t window, int run)
{
    const auto begin = std::chrono::steady_clock::now();
    Acknowledged count;
    natsConnection *connected = nullptr;
    check(natsConnection_ConnectTo(&connected, url.c_str()), "cannot connect to NATS");
    const std::unique_ptr<natsConnection, Destroy> connection(connected);
    jsOptions options;
    check(jsOptions_Init(&options), "options");
    options.PublishAsync.MaxPending = static_cast<int64_t>(window);
    options.PublishAsync.AckHandler = on_answer;
    options.PublishAsync.AckHandlerClosure = &count;
    options.PublishAsync.StallWait = kLimitMs;
    jsCtx *made = nullptr;
    check(natsConnection_JetStream(&made, connected, &options), "JetStream");
    const std::unique_ptr<jsCtx, Destroy> context(made);
    const std::vector<Input> &all = inputs();
    for (int64_t i = 0; i < events; i++)
    {
        natsMsg *message = make_message(subject, all[static_cast<size_t>(i) % all.size()],
                                        fmt::format("{:08x}-0000-7000-8000-{:012x}", run, i));
        check(js_PublishMsgAsync(made, &message, nullptr), "cannot publish");
    }
    jsPubOptions wait;
    check(jsPubOptions_Init(&wait), "options");
    wait.MaxWait = kLimitMs;
    check(js_PublishAsyncComplete(made, &wait), "not all was acknowledged");
    if (count.refused > 0)
        throw std::runtime_error("JetStream refuses events");
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    return taken.count();
}

} // namespace outbox::bench
