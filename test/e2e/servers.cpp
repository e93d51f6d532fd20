#include "servers.h"

#include <memory>

namespace outbox::test
{

namespace
{

std::unique_ptr<Kafka> the_kafka;
std::unique_ptr<PgCluster> the_cluster;

} // namespace

Kafka &
kafka()
{
    if (!the_kafka)
    {
        the_kafka = make_kafka();
        the_kafka->start();
    }
    return *the_kafka;
}

PgCluster &
cluster()
{
    if (!the_cluster)
    {
        auto fresh = std::make_unique<PgCluster>("shared");
        fresh->init({{"outbox.bootstrap_servers", kafka().bootstrap()}});
        fresh->start();
        the_cluster = std::move(fresh);
    }
    return *the_cluster;
}

void
stop_servers()
{
    if (the_cluster && the_cluster->running())
        the_cluster->stop();
    the_cluster.reset();
    if (the_kafka)
        the_kafka->stop();
    the_kafka.reset();
}

} // namespace outbox::test
