// The subscriptions of a database besides `default`, as status, doctor and the commands for them
// need them.
#pragma once

#include "database.h"
#include "output.h"
#include "relay_view.h"

#include <optional>
#include <string>
#include <vector>

namespace outbox::ctl
{

// A row of outbox.subscription_status, and what belongs to it.
struct SubscriptionView
{
    Json json; // all of it, as "outboxctl --json subscriptions list" prints it
    std::string name;
    std::string state;
    Text pid;
    std::optional<double> backlog_age; // seconds
    long long in_flight_events = 0;
    long long in_flight_bytes = 0;
    long long published_total = 0;
    std::optional<double> published_ago;
    long long failed = 0;
    long long retrying = 0; // these two are counted up to 100,000
    long long waiting = 0;
    long long failures = 0; // consecutive
    std::optional<double> next_attempt_in;
    Text last_error;
    std::optional<double> last_error_ago;
    Text config_error;
    Text types; // which it takes; nothing: all
    Text detached_at;
    Text detached_by;                 // nothing: the relay let go of it
    std::optional<double> holds_ring; // for so many seconds partitions wait for it

    bool is_old() const { return backlog_age && *backlog_age > 60; }
};

// Nothing when this role may not see them. None where the extension is older than 0.3. With a name
// that one; Error when there is none of it.
std::optional<std::vector<SubscriptionView>>
look_at_subscriptions(Database &database, const std::optional<std::string> &name = std::nullopt);

// Error when an option --subscription names none: a list would be empty, as if all were well. A
// role that may not see which there are is believed.
void require_subscription(Database &database, const std::optional<std::string> &name);

// What an option --subscription names, or null for a statement.
inline std::string
subscription_or_default(const std::optional<std::string> &name)
{
    return name.value_or("default");
}

// As text_of_state(), of the subscription's destination, which need not be Kafka.
StateText text_of_state(const SubscriptionView &view);

// One below the other.
std::vector<std::string> lines_of(const std::vector<SubscriptionView> &subscriptions,
                                  const Output &output);

// Everything about one.
List describe(const SubscriptionView &subscription);

} // namespace outbox::ctl
