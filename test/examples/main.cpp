// The examples of every language, on PostgreSQL and Apache Kafka: scripts/examples builds
// them before.
#include <cstdlib>

#include "e2e/servers.h"

int
main(int argc, char **argv)
{
    if (setenv("OUTBOX_TEST_KAFKA", "real", 1) != 0)
        return 1;
    return outbox::test::run_tests(argc, argv);
}
