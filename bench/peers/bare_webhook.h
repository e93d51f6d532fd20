// The limit of webhooks: libcurl's multi interface and nothing else, with as many requests at a
// time as the relay has, and their headers but for the signature.
#pragma once

#include <cstdint>
#include <string>

namespace outbox::bench
{

// Sends the inputs again and again, `count` requests, `at_once` at a time.
void send_bare(const std::string &url, int64_t count, int at_once);

// One connection; send() waits for the answer.
class BareWebhook
{
public:
    explicit BareWebhook(const std::string &url);
    ~BareWebhook();
    BareWebhook(const BareWebhook &) = delete;
    BareWebhook &operator=(const BareWebhook &) = delete;

    void send(const std::string &key, const std::string &payload);

private:
    const std::string url_;
    void *easy_;
};

} // namespace outbox::bench
