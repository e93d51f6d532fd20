// What is ready to be sent behind a refused request is not sent.
#pragma once

struct rd_kafka_conf_s;

namespace outbox::kafka
{

// While a request of fewer than five records is under way, librdkafka builds the next one for the
// partition. When the first is refused, the client's death (enable.gapless.guarantee) keeps it from
// building others, but the one that is ready goes out, unless another thread of it was quick enough
// to take it away. It would be accepted if the refused one was the first of the producer that the
// leader has seen for the partition: a leader that knows nothing of a producer takes any number. It
// knows nothing again when it has forgotten an idle one or somebody has made the topic anew, so
// counting acknowledgements here would not tell.
//
// So the connection by which a refusal has come is ended at once, in the thread that sends by it.
// With one request at a time nobody waits for another answer there.
void end_connections_of_refusals(rd_kafka_conf_s *config) noexcept;

// Whether a client that was not made after that, in this thread, has freed the interceptors of its
// configuration: rd_kafka_new() does when it fails late, and rd_kafka_conf_destroy() would free
// them again (rdkafka.c of 2.0.2, from "fail:" on). Such a configuration must not be destroyed.
bool has_freed_interceptors() noexcept;

} // namespace outbox::kafka
