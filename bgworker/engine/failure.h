// What went wrong between the relay and a destination, in a form that can always be stored and
// passed on.
#pragma once

#include <string_view>

namespace outbox
{

// Who has to act on a failure. It is all that the engine decides by, with the marks in Failure: the
// name and the texts are the destination's own, and only shown.
enum class FailureClass : unsigned char
{
    none,
    // The destination or the way to it: every record fares the same, so wait and try again; set
    // nothing aside.
    retriable,
    // One topic, or a partition of it: missing, not writable or wrongly configured; others are
    // fine. No attempt of an event is counted: it is retried for ever.
    topic,
    // A record was refused, or the batch that held it: counts as an attempt of the event. Any of
    // those that were given up together may be the culprit, which is found by sending fewer.
    event,
    // The sink is dead: serve what is left, close it, open another.
    fatal,
    // The settings: no sink can be made with them.
    config,
    // The destination asks never to be called again. Nothing is sent until a person says so; no
    // attempt is counted, and the record stays where it is.
    gone,
};

// The texts are inside, so that reporting a failure allocates nothing and cannot fail. They never
// contain a secret that was given in the settings.
struct Failure
{
    // Most events need a failure that says nothing, so of the texts only the ends are written.
    Failure() noexcept { name[0] = text[0] = hint[0] = '\0'; }

    FailureClass cls = FailureClass::none;
    // The record may have arrived although it is reported as failed; sending it again may repeat
    // it.
    bool possibly_persisted = false;
    // The sink has to go, or a record was dropped with it or by a purge, for what has been told
    // already: behind a refused record it ends on purpose, so that nothing overtakes that. Nothing
    // is wrong with the destination.
    bool consequence = false;
    // Only sums up what was reported before with more of a reason ("all brokers are down"). Until
    // then news of trouble are kept as a reason, and nothing counts as failed.
    bool summary = false;
    // The record, or the batch that it went with, is larger than the destination takes.
    bool too_large = false;
    // Of trouble: in how long the sink tries again by itself; -1: the engine shows its own pause.
    int retry_after_ms = -1;
    // The sink's own number, for its tests; the engine never looks at it.
    int code = 0;
    // The destination's name for it, such as MSG_SIZE_TOO_LARGE.
    char name[64];
    char text[1280];
    char hint[256];
};

// Fills `failure`; `format` is printf's, and the text is cut to fit.
void set_failure(Failure &failure, FailureClass cls, const char *name, const char *format,
                 ...) noexcept __attribute__((format(printf, 4, 5)));

// Cut to fit.
void set_hint(Failure &failure, std::string_view hint) noexcept;

// The name of a class, for logs and tests.
const char *name_of(FailureClass cls) noexcept;

} // namespace outbox
