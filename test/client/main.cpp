// The tests of the client library: real PostgreSQL, and the Kafka that $OUTBOX_TEST_KAFKA names.
// "client_tests consume …" is a consumer process of these tests, see consumer_process.h.
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>

#include <gtest/gtest.h>

#include "consumer_process.h"
#include "e2e/servers.h"

int
main(int argc, char **argv)
{
    std::signal(SIGPIPE, SIG_IGN); // a server that died is an error to report, not to die of
    try
    {
        if (argc > 1 && std::string(argv[1]) == "consume")
            return outbox::test::consume({argv + 2, argv + argc});
        testing::InitGoogleTest(&argc, argv);
        const int status = RUN_ALL_TESTS();
        outbox::test::stop_servers();
        return status;
    }
    catch (const std::exception &error)
    {
        std::fprintf(stderr, "client tests: %s\n", error.what());
        return 1;
    }
}
