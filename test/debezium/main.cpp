// What Kafka gets from the relay and from Debezium, which reads the same table: real PostgreSQL,
// Apache Kafka and an unmodified Debezium.
#include <cstdlib>

#include "e2e/servers.h"

int
main(int argc, char **argv)
{
    // Kafka Connect does not work with the embedded broker.
    if (setenv("OUTBOX_TEST_KAFKA", "real", 1) != 0)
        return 1;
    return outbox::test::run_tests(argc, argv);
}
