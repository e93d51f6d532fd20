// Which sinks there are: each registers itself from its folder, and every backend knows what its
// options are. Only a relay loads the library that sends.
#pragma once

#include "sink_options.h"

#include <string_view>

namespace outbox
{

inline constexpr const char *kNoPolicies[] = {nullptr};

// All of it is constant and lasts as long as the process.
struct SinkKind
{
    // In SQL, such as "webhook"; and in messages, such as "RabbitMQ" or "the webhook": "<title>
    // takes no events for topic …", "a subscription to <title> has no option …".
    const char *name;
    const char *title;
    // The library that sends to it, beside outbox.so and without a suffix: "outbox_" and the name
    // of its folder. And the Debian package that has it; %s is PostgreSQL's major version.
    const char *library;
    const char *package;

    // The names of its own options; ends with null. Others than these and the common ones are
    // refused before check() is called.
    const char *const *options;
    // Returns false and says why when the relay could not work with these, which are its own only.
    // Reads no files and asks no network: it runs in a session's backend. May throw std::bad_alloc.
    bool (*check)(const SinkOptions &options, OptionFault &fault);

    // The own options that are settings of outbox: they are checked as these are, and given as
    // text. Where an option is not given the setting does not count: it is of another destination.
    // Only Kafka has any. Ends with null.
    const char *const *settings;
    // While this one of them is empty, `default` has no destination. Null: there is always one.
    const char *needed_setting;

    // Other defaults than the settings' for common options, as name and value in turn; ends with
    // null.
    const char *const *defaults;

    // Settings of outbox that hold for every subscription to it, whatever its options say: what
    // superusers forbid. They are given with the options, as text. Ends with null.
    const char *const *policies = kNoPolicies;
};

inline constexpr const char *kNoNames[] = {nullptr};

// The package of all sinks but Kafka's.
inline constexpr const char *kSinksPackage = "postgresql-%s-outbox-sinks";

// In options.cpp of its folder, as a variable of a namespace: `const RegisteredSink
// registered(kMySink);`.
class RegisteredSink
{
public:
    explicit RegisteredSink(const SinkKind &kind) noexcept;

    const SinkKind &kind() const noexcept { return kind_; }
    const RegisteredSink *next() const noexcept { return next_; }

private:
    const SinkKind &kind_;
    const RegisteredSink *next_;
};

// Null: there is none.
const SinkKind *find_sink_kind(std::string_view name) noexcept;
// Null: there is none. In no order.
const RegisteredSink *first_sink() noexcept;

// Whether one of the names is this one.
bool is_among(const char *const *names, std::string_view name) noexcept;

} // namespace outbox
