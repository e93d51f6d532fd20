// Names of Kafka's brokers, looked up for librdkafka.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include <netdb.h>

#include "stop_flag.h"

namespace outbox::v0::detail
{

// librdkafka's threads would wait for the name service without a limit, and a client is not
// destroyed before they have ended. One of these for each client; it lives longer than that.
class BrokerNames
{
public:
    // What librdkafka's resolve_cb has to do: like getaddrinfo(), and without a name like
    // freeaddrinfo(). EAI_AGAIN after half a minute without an answer; librdkafka then asks again.
    int resolve(const char *host, const char *service, const addrinfo *hints,
                addrinfo **result) noexcept;

    // Waits for the name service, those to come too, end at once: the client is to be destroyed.
    void give_up() noexcept { given_up_.raise(); }

private:
    int lend(const char *host, const char *service, const addrinfo &hints, addrinfo **result);
    void take_back(const addrinfo *list);

    StopFlag given_up_;
    std::mutex mutex_; // of what follows: each broker has its thread
    std::vector<std::shared_ptr<addrinfo>> lent_;
};

} // namespace outbox::v0::detail
