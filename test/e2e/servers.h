#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/consumer.h"
#include "support/kafka_cluster.h"
#include "support/pg.h"
#include "support/pg_cluster.h"
#include "support/workspace.h"

namespace outbox::test
{

// The Kafka of this run, embedded or real, started at first use. Tests that take it away bring it
// back.
Kafka &kafka();

// The PostgreSQL of this run, with the extension preloaded and told of kafka(). Tests that kill or
// reconfigure a server make their own.
PgCluster &cluster();

// Ends both; main() calls it, so that errors while stopping are errors of the run.
void stop_servers();

} // namespace outbox::test
