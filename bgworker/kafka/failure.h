// What went wrong between the relay and Kafka, in a form that can always be stored and passed on.
#pragma once

namespace outbox::kafka
{

// Who has to act on a failure.
enum class FailureClass : unsigned char
{
    none,
    // Kafka or the way to it: every record fares the same, so wait and try again; park nothing.
    retriable,
    // One topic: it is missing, not writable or wrongly configured; other topics are fine.
    topic,
    // Kafka refused a record, or the batch that held it: find the culprit by sending one by one.
    event,
    // The producer is dead: serve what is left, destroy it, create another.
    fatal,
    // The settings: no producer can be created with them.
    config,
};

// The texts are inside, so that reporting a failure allocates nothing and cannot fail. They never
// contain a secret that was given in the settings.
struct Failure
{
    FailureClass cls = FailureClass::none;
    // librdkafka's error code: negative when made in this process, positive when sent by a broker.
    int code = 0;
    // The record may be in Kafka although it is reported as failed; sending it again may repeat it.
    bool possibly_persisted = false;
    // Kafka's name for the code, such as MSG_SIZE_TOO_LARGE; librdkafka's own start with "_".
    char name[64] = "";
    char text[384] = "";
    char hint[256] = "";
};

// Tells who has to act on a librdkafka or Kafka error code. A code that nobody knows yet counts as
// a refused record: that retries it a bounded number of times and lets other keys go on.
FailureClass classify(int code) noexcept;

// Whether a producer has to go, or a record was dropped with it, for what has been told already: a
// refused record kills its producer on purpose, so that nothing overtakes it. That is no trouble
// with Kafka.
bool is_consequence(const Failure &failure) noexcept;

// The name of a class, for logs and tests.
const char *name_of(FailureClass cls) noexcept;

// Fills `failure` from a code, with its class and name. `format` is printf's; the text is cut to
// fit.
void describe(Failure &failure, int code, const char *format, ...) noexcept
    __attribute__((format(printf, 3, 4)));

// Fills `failure` as one of the settings. `hint` is a whole sentence, taken as it is.
void describe_config(Failure &failure, const char *hint, const char *format, ...) noexcept
    __attribute__((format(printf, 3, 4)));

} // namespace outbox::kafka

#ifdef POSTGRES_H
#error "bgworker/kafka must be included before PostgreSQL headers and never include them"
#endif
