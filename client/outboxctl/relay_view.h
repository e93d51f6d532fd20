// The relay's state as status, lag and doctor need it.
#pragma once

#include "database.h"
#include "output.h"

#include <optional>
#include <string>
#include <vector>

namespace outbox::ctl
{

struct Pause
{
    std::string since;
    double seconds = 0; // since then
    std::string by;
    Text reason;
};

// outbox.relay_status, and what belongs to it.
struct RelayView
{
    Json json; // all of it, as "outboxctl --json status" prints it
    std::string state;
    Text pid;
    std::optional<long long> backlog;  // nothing: not known
    std::optional<double> backlog_age; // seconds
    long long in_flight_events = 0;
    long long in_flight_bytes = 0;
    long long published_total = 0;
    std::optional<double> published_ago;
    long long failed = 0;
    long long retrying = 0; // these two are counted up to 100,000
    long long waiting = 0;
    std::optional<double> waiting_age; // seconds, of the first of these
    long long failures = 0;            // consecutive
    std::optional<double> next_attempt_in;
    Text last_error;
    std::optional<double> last_error_ago;
    Text config_error;
    Text bootstrap;
    std::optional<Pause> pause; // only when this role may see it
};

RelayView look_at_relay(Database &database);

// What is RETRYING and WAITING: "3 events are tried again, 12 events behind others, the first 5 min
// old"; empty: nothing is.
std::string text_of_set_aside(const RelayView &view);

// " by alice, 5 min 2 s ago: why"
std::string text_of_pause(const Pause &pause);

// How a state is shown, what it means, and what to do; both empty when all is well.
struct StateText
{
    Style style;
    const char *meaning;
    const char *remedy;
};
StateText text_of_state(const std::string &state);

} // namespace outbox::ctl
