// What the library of a sink offers to the relay that has loaded it.
#pragma once

#include "bgworker/engine/sink.h"

#include "extension/core/sink_options.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace outbox
{

// All that a sink is told, read at one moment.
struct SinkSettings
{
    // Its own options, which its check() in options.h has accepted once: they may be older than the
    // library. Those that are settings are there with the text of the setting, also when empty.
    SinkOptions options;
    // For the destination to show: "outbox-<database>".
    std::string client_id;
    std::string subscription;
    // Relative paths of files begin here: the server's data directory.
    std::string directory;
    // Pauses between attempts: double from the first to the second, with jitter.
    std::int64_t backoff_initial_ms = 500;
    std::int64_t backoff_max_ms = 60000;
    // What each sink will have outstanding at most, as the engine counts it: see size_in_flight().
    // A larger record may be outstanding alone.
    std::size_t max_records = 0;
    std::size_t max_bytes = 0;
    // The largest event that emit() takes, without what the destination adds.
    std::size_t max_event_bytes = 0;
};

// What a sink is made from, checked: options and the contents of files that these name.
class SinkSetup
{
public:
    virtual ~SinkSetup() = default;

    // Whether another one of the same library makes equal sinks. After a reload the relay starts
    // anew unless it does.
    virtual bool equals(const SinkSetup &other) const noexcept = 0;
    // The largest record, in bytes, that the engine builds for it.
    virtual std::size_t max_record_bytes() const noexcept = 0;
    // Null and the reason, of class config: no descriptor or thread is left, for example. A relay
    // makes one and keeps it; another one, with one sink of Use::stream, is made for a moment to
    // see whether a changed setup works, and closed without having been given a record: that must
    // not wait for more than some 100 ms. Must not outlive this. May throw std::bad_alloc.
    virtual std::unique_ptr<Destination> make(Failure &why) const = 0;
};

// The library's one symbol returns a constant one of these.
struct SinkModule
{
    // OUTBOX_VERSION that it was compiled with; another one than the relay's is not used.
    const char *version;
    // SinkKind::name.
    const char *name;
    // Reads files and checks: null and the reason, of class config, when no sink can be made. No
    // secret in `why`. Adds to `warnings`, which are logged when the relay starts, either way. May
    // wait for the file system only. May throw std::bad_alloc.
    std::unique_ptr<SinkSetup> (*read)(const SinkSettings &settings,
                                       std::vector<OptionFault> &warnings, Failure &why);
};

using GetSinkModule = const SinkModule *();

inline constexpr const char *kSinkModuleSymbol = "outbox_sink_module";

} // namespace outbox

// In module.cpp of each sink.
extern "C" __attribute__((visibility("default"))) const outbox::SinkModule *outbox_sink_module();

#ifdef POSTGRES_H
#error "bgworker/sinks must be included before PostgreSQL headers and never include them"
#endif
