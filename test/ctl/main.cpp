// The tests of outboxctl: the built program, a private PostgreSQL and the embedded broker.
#include <csignal>
#include <cstdio>
#include <exception>

#include <gtest/gtest.h>

#include "e2e/servers.h"

int
main(int argc, char **argv)
{
    testing::InitGoogleTest(&argc, argv);
    std::signal(SIGPIPE, SIG_IGN); // a server that died is an error to report, not to die of
    try
    {
        const int status = RUN_ALL_TESTS();
        outbox::test::stop_servers();
        return status;
    }
    catch (const std::exception &error)
    {
        std::fprintf(stderr, "outboxctl tests: %s\n", error.what());
        return 1;
    }
}
