// What tests with the fake server share: how it takes messages, and what the driver sends it.
#pragma once

#include <string>
#include <vector>

#include "driver.h"
#include "fake_rabbit.h"

namespace outbox::test
{

// Hears so many messages.
inline std::vector<std::string>
hear_messages(const Peer &peer, std::size_t count)
{
    std::vector<std::string> ids;
    for (std::string id; ids.size() < count && peer.hear_message(id);)
        ids.push_back(id);
    return ids;
}

// To the end.
inline void
ack_all(const Peer &peer)
{
    std::uint64_t number = 0;
    for (std::string id; peer.hear_message(id);)
        (void) peer.say(ack(++number));
}

inline void
produce_each_key(AmqpDriver &driver, int count)
{
    for (int i = 0; i < count; i++)
        (void) driver.produce("a", std::to_string(i));
}

} // namespace outbox::test
