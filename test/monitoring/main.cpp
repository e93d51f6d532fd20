// The tests of monitoring/: PostgreSQL, the embedded broker, and Debian's exporters and Prometheus.
#include <cstdlib>

#include "scene.h"

namespace
{

// Before the shared servers end, as its database is on one of them.
class EndOfScene : public testing::Environment
{
    void TearDown() override { outbox::test::Scene::end(); }
};

} // namespace

int
main(int argc, char **argv)
{
    if (setenv("OUTBOX_TEST_KAFKA", "embedded", 1) != 0)
        return 1;
    testing::AddGlobalTestEnvironment(new EndOfScene);
    return outbox::test::run_tests(argc, argv);
}
