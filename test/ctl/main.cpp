// The tests of outboxctl: the built program, a private PostgreSQL and the embedded broker.
#include "e2e/servers.h"

int
main(int argc, char **argv)
{
    return outbox::test::run_tests(argc, argv);
}
