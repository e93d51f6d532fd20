// librdkafka's errors as the engine knows failures.
#pragma once

#include "bgworker/engine/failure.h"

namespace outbox::kafka
{

inline constexpr const char *kOutOfMemory = "out of memory";

// Classifies a librdkafka or Kafka error code by who has to act on it. An unknown code counts as a
// refused record: that is retried a bounded number of times, and other keys continue.
FailureClass classify(int code) noexcept;

// Fills `failure` from a code, with its class, name and marks. `format` is printf's; the text is
// cut to fit.
void describe(Failure &failure, int code, const char *format, ...) noexcept
    __attribute__((format(printf, 3, 4)));

// Fills `failure` as one of the settings. `hint` is a whole sentence, taken as it is.
void describe_config(Failure &failure, const char *hint, const char *format, ...) noexcept
    __attribute__((format(printf, 3, 4)));

} // namespace outbox::kafka

#ifdef POSTGRES_H
#error "bgworker/sinks/kafka must be included before PostgreSQL headers and never include them"
#endif
