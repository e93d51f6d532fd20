#include "kafka_cluster.h"

#include <cstdlib>
#include <stdexcept>

namespace outbox::test
{

std::unique_ptr<Kafka>
make_kafka()
{
    const char *wanted = std::getenv("OUTBOX_TEST_KAFKA");
    const std::string kind = wanted != nullptr && *wanted != '\0' ? wanted : "embedded";
    if (kind == "embedded")
        return std::make_unique<EmbeddedKafka>();
    if (kind == "real")
        return std::make_unique<RealKafka>();
    throw std::invalid_argument("OUTBOX_TEST_KAFKA is \"" + kind +
                                "\", it may be embedded or real");
}

} // namespace outbox::test
