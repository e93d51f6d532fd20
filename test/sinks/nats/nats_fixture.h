// A nats-server with a stream.
#pragma once

#include <gtest/gtest.h>

#include "support/driver.h"
#include "support/nats_server.h"

namespace outbox::test
{

class Nats : public testing::Test
{
protected:
    Nats()
    {
        server.start();
        server.add_stream({"EVENTS", {"a.>", "good"}});
    }

    NatsServer server;
};

} // namespace outbox::test
