#include "seed.h"

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

namespace outbox::test
{

unsigned
choose_seed()
{
    const char *wanted = std::getenv("OUTBOX_TEST_SEED");
    const unsigned seed =
        wanted != nullptr ? static_cast<unsigned>(std::stoul(wanted)) : std::random_device{}();
    std::printf("OUTBOX_TEST_SEED=%u\n", seed);
    return seed;
}

} // namespace outbox::test
