// The tests of the client library: real PostgreSQL, and the Kafka that $OUTBOX_TEST_KAFKA names.
// "client_tests consume …" is a consumer process of these tests, see consumer_process.h.
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>

#include "consumer_process.h"
#include "e2e/servers.h"

int
main(int argc, char **argv)
{
    if (argc == 1 || std::string(argv[1]) != "consume")
        return outbox::test::run_tests(argc, argv);
    std::signal(SIGPIPE, SIG_IGN); // a server that died is an error to report, not to die of
    try
    {
        return outbox::test::consume({argv + 2, argv + argc});
    }
    catch (const std::exception &error)
    {
        std::fprintf(stderr, "consumer process: %s\n", error.what());
        return 1;
    }
}
