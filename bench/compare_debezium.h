#pragma once

namespace outbox::bench
{

// Lets Debezium, as docs/debezium.properties configures it, and the relay publish the same events
// of outbox.events, to topics of their own, and compares key, value, partition and headers. Prints
// each difference, and says whether there was none but those that docs/debezium.md lists.
bool compare_with_debezium();

} // namespace outbox::bench
