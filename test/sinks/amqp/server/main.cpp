#include "scene.h"

#include <gtest/gtest.h>

int
main(int argc, char **argv)
{
    testing::InitGoogleTest(&argc, argv);
    const int status = RUN_ALL_TESTS();
    outbox::test::stop_shared_server();
    return status;
}
