#pragma once

#include <string>
#include <vector>

#include "checker.h"
#include "consumer.h"
#include "pg.h"

namespace outbox::test
{

constexpr const char *kTopicPrefix = "outbox.event."; // of the default outbox.topic_template

// What the database's table of events holds, as Kafka must have it.
std::vector<Event> committed_events(Db &db, const std::string &topic_prefix = kTopicPrefix);

// The records as deliveries of the events that their header "id" names.
std::vector<Delivery> deliveries(const std::vector<Record> &records);

// Reads until every committed event has come or `limit` has passed, then a little longer in case
// there is more than that, and compares. Call it when nobody emits any more.
Report check_delivery(Db &db, Consumer &consumer, Milliseconds limit = std::chrono::seconds(60));

} // namespace outbox::test
