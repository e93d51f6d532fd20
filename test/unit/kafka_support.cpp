// The parts of test/support that the tests of bgworker/kafka use.
#include "support/consumer.cpp"     // NOLINT(bugprone-suspicious-include)
#include "support/kafka_client.cpp" // NOLINT(bugprone-suspicious-include)
