#include "bgworker/sinks/nats/options.h"
#include "bgworker/sinks/nats/settings.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace outbox::test
{

namespace
{

bool
takes_servers(const std::string &servers, nats::Settings &settings)
{
    SinkOptions options;
    options.set_text("servers", servers);
    OptionFault fault;
    const bool taken = nats::read_options(options, settings, fault);
    EXPECT_EQ(taken, fault.message.empty()) << servers;
    EXPECT_EQ(taken, fault.hint.empty()) << servers;
    return taken;
}

TEST(NatsOptions, ServersAreNamesOrAddressesWithPortsOrWithout)
{
    for (const char *good :
         {"h", "h.", "a-b.c_d", "h:1", "h:65535", "1.2.3.4:4222", "[::1]", "[::1]:4222",
          "[fe80::1]:4222", "nats://h", "tls://h:4222", "nats://[::1]:4222", " a , b:2 ,tls://c"})
    {
        nats::Settings settings;
        EXPECT_TRUE(takes_servers(good, settings)) << good;
        EXPECT_FALSE(settings.servers.empty()) << good;
    }
}

// libnats would look for something else than was meant, and say that no server is there.
TEST(NatsOptions, WhatIsNoServerIsRefused)
{
    for (const char *bad : {"",
                            ",",
                            "a,",
                            "h:",
                            ":4222",
                            "h:0",
                            "h:65536",
                            "h:-1",
                            "h:x",
                            "h:000001",
                            "h:1:2",
                            "::1",
                            "::1:4222",
                            "[::1",
                            "[::1]x",
                            "[]",
                            "[::1]:",
                            "[h]",
                            "[1.2.3.4]",
                            "[::1]]:1",
                            "h]:1",
                            ".",
                            "..",
                            ".h",
                            "h..h",
                            "-h",
                            "a b",
                            "h/x",
                            "nats://",
                            "tls://",
                            "nats://a/",
                            "http://h",
                            "nats://u:p@h",
                            "tls://[fe80::1%eth0]"})
    {
        nats::Settings settings;
        EXPECT_FALSE(takes_servers(bad, settings)) << bad;
    }
}

} // namespace

} // namespace outbox::test
