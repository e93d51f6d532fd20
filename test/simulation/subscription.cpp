#include "subscription.h"

#include <algorithm>

namespace outbox::sim
{

namespace
{

// Who allows for fewer events in flight has them wait for each other.
bool
allows_many(const Settings &settings)
{
    constexpr int kMany = 100;
    constexpr int kManyBytes = 20000;
    return settings.max_events >= kMany && settings.max_bytes >= kManyBytes;
}

Relay::Settings
relay_settings(const Settings &settings, bool beside_others)
{
    const std::size_t most_queued = 2 * static_cast<std::size_t>(settings.max_events) + 100;
    const auto batch = static_cast<std::size_t>(settings.batch_records);
    return {
        {static_cast<std::size_t>(settings.max_events),
         static_cast<std::size_t>(settings.max_bytes)},
        {settings.max_attempts, settings.block, settings.backoff_initial_ms,
         settings.backoff_max_ms},
        {settings.max_in_flight, batch, most_queued,
         2 * static_cast<std::size_t>(settings.max_bytes), settings.sends_ready},
        {settings.endpoint, most_queued, batch, settings.backoff_initial_ms,
         settings.backoff_max_ms, settings.sink_dies, settings.slow_key},
        settings.new_lanes && !beside_others // all relays of a database have the same
    };
}

} // namespace

Subscription::Subscription(const World &world, const Settings &settings, int number)
    : world_(world), settings_(settings), number_(number),
      name_(number == 0 ? "" : "subscription " + std::to_string(number) + ": "),
      checker_(world.clock, world.trace)
{
    checker_.watch(world.database);
    if (settings.max_in_flight > 1)
        checker_.excuse_order();
    if (settings.endpoint)
        checker_.refuses_alone();
    const bool many = allows_many(settings);
    // What has no answer is tried again after a pause, whatever was wrong.
    const Time pause = settings.endpoint ? settings.backoff_max_ms * kMs : 0;
    checker_.set_patience(settings.backoff_max_ms * kMs * 3 + 20 * kSecond,
                          (many ? 2 : 8) * kSecond + pause, !many);
}

void
Subscription::begin(const RelayTables &tables)
{
    const auto &[clock, random, trace, database, server, history] = world_;
    store_ = std::make_unique<RelayStore>(database, clock, random, trace, tables);
    cluster_ = std::make_unique<Cluster>(clock, random, trace, checker_, history.types);
    network_ = std::make_unique<Network>(clock, random, trace, *cluster_);
    const bool beside_others = !history.others.empty();
    relay_ = std::make_unique<Relay>(Relay::Surroundings{clock, random, trace, database, *store_,
                                                         *cluster_, *network_, checker_, server,
                                                         beside_others},
                                     relay_settings(settings_, beside_others));
    if (settings_.max_in_flight > 1)
        cluster_->begin_at_zero();
    if (settings_.endpoint)
        cluster_->be_endpoint();
    checker_.exists(*store_, *cluster_);
}

void
Subscription::drop()
{
    checker_.dropped();
    relay_.reset();
    network_.reset();
    cluster_.reset();
    store_.reset();
}

void
Subscription::speak() const noexcept
{
    world_.trace.is_about(name_.c_str());
}

void
Subscription::advance_network()
{
    speak();
    network_->advance();
}

void
Subscription::advance_relay()
{
    speak();
    relay_->advance();
}

Time
Subscription::next_event_at() const
{
    return std::min(network_->next_event_at(), relay_->next_event_at());
}

bool
Subscription::is_done() const
{
    return !exists() || (checker_.all_done() && checker_.replays_done() && relay_->is_idle() &&
                         network_->on_its_way() == 0);
}

// Whether a clock that was set back has put off an attempt: the relay's maintenance finds it.
bool
Subscription::is_any_put_off() const
{
    if (!world_.clock.was_set())
        return false;
    const Time latest = world_.clock.wall() + settings_.backoff_max_ms * kMs + 60 * kSecond;
    const auto &rows = store_->tables().deliveries();
    return std::any_of(rows.begin(), rows.end(),
                       [&](const auto &item) {
                           return item.second.state == DeliveryState::retrying &&
                                  item.second.next_attempt_at > latest;
                       });
}

void
Subscription::note_disturbances()
{
    const Database &database = world_.database;
    const bool locked = database.is_locked(Table::events) || database.is_locked(Table::position) ||
                        database.is_locked(Table::routes);
    if (!relay_->is_running() || !relay_->can_open() || locked || store_->tables().paused ||
        database.standby_lags())
        checker_.disturbed(0);
    // What could not be set aside is tried again after up to five seconds.
    if (store_->take_failed())
    {
        checker_.disturbed(8 * kSecond);
        checker_.save_fails();
    }
    if (is_any_put_off())
        checker_.disturbed(0);
    if (!cluster_->any_broker_answers())
        checker_.disturbed(settings_.backoff_max_ms * kMs);
}

void
Subscription::die()
{
    speak();
    relay_->die();
}

void
Subscription::restart()
{
    speak();
    relay_->restart();
}

} // namespace outbox::sim
