// The end-to-end tests: real PostgreSQL, and a Kafka that $OUTBOX_TEST_KAFKA names (embedded or
// real).
#include "servers.h"

int
main(int argc, char **argv)
{
    return outbox::test::run_tests(argc, argv);
}
