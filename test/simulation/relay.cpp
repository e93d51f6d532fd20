#include "relay.h"

#include "bgworker/engine/mutant.h"
#include "bgworker/engine/common/sooner.h"

#include <algorithm>

namespace outbox::sim
{

namespace
{

constexpr long kPollMs = 1000;
constexpr Time kDrain = 500 * kMs;
constexpr Time kRetry = kSecond;
constexpr Time kMaintain = 10 * kSecond;

} // namespace

// The engine's end of a sink, which the relay also knows.
class Relay::Handle final : public Sink
{
public:
    Handle(Relay &relay, std::unique_ptr<Sink> sink, SimSink &known)
        : relay_(relay), sink_(std::move(sink)), known_(known)
    {
        relay_.sinks_.push_back(&known_);
    }
    ~Handle() override
    {
        auto &all = relay_.sinks_;
        all.erase(std::remove(all.begin(), all.end(), &known_), all.end());
    }

    bool refuses_batches() const noexcept override { return sink_->refuses_batches(); }
    ProduceResult produce(const Record &record, Failure &why) noexcept override
    {
        return sink_->produce(record, why);
    }
    ProduceResult offer(const Record &record, Offer &offer, Failure &why) noexcept override
    {
        return sink_->offer(record, offer, why);
    }
    ProduceResult place(std::string_view topic, std::string_view key, Offer &offer,
                        Failure &why) noexcept override
    {
        return sink_->place(topic, key, offer, why);
    }
    void note_away() noexcept override { sink_->note_away(); }
    bool take_topics_changed() noexcept override { return sink_->take_topics_changed(); }
    void send_now() noexcept override { sink_->send_now(); }
    std::size_t serve(SinkListener &listener, std::size_t max_events) noexcept override
    {
        return sink_->serve(listener, max_events);
    }
    int serve_within_ms() const noexcept override { return sink_->serve_within_ms(); }
    bool visit_begun(int age_ms, const std::function<void(std::uint64_t tag)> &visit) const override
    {
        return sink_->visit_begun(age_ms, visit);
    }
    std::size_t outstanding() const noexcept override { return sink_->outstanding(); }
    void purge() noexcept override { sink_->purge(); }
    bool fatal(Failure &why) const noexcept override { return sink_->fatal(why); }
    bool close(int timeout_ms) noexcept override { return sink_->close(timeout_ms); }
    bool reachable(int timeout_ms) noexcept override { return sink_->reachable(timeout_ms); }

private:
    Relay &relay_;
    std::unique_ptr<Sink> sink_;
    SimSink &known_;
};

Relay::Relay(const Surroundings &around, const Settings &settings)
    : around_(around), settings_(settings), next_at_(around.clock.at()),
      replays_(around.trace, around.database, around.store), replay_watch_(around.checker)
{
}

Relay::~Relay() = default;

template <typename S>
std::unique_ptr<Sink>
Relay::hand_out(std::unique_ptr<S> sink)
{
    S &known = *sink;
    return std::make_unique<Handle>(*this, std::move(sink), known);
}

// When the stream's cannot be opened, none is until a relay that starts anew has tried.
std::unique_ptr<Sink>
Relay::open(Use use, int oversized_batches, Failure &why)
{
    if (!enabled_)
        return nullptr;
    if (!usable_)
    {
        set_failure(why, FailureClass::retriable, "UNUSABLE", "no sink can be opened");
        enabled_ = use != Use::stream;
        retry_at_ = around_.clock.at() + kRetry;
        return nullptr;
    }
    constexpr const char *kNames[] = {"stream", "redelivery", "replay"};
    const char *name = kNames[static_cast<int>(use)];
    const ProducerId id = next_producer_++;
    ProducerWatch &watch =
        use == Use::replay ? static_cast<ProducerWatch &>(replay_watch_) : around_.checker;
    if (settings_.endpoint.used)
        return hand_out(std::make_unique<EndpointSink>(around_.clock, around_.random, around_.trace,
                                                       around_.network, watch, settings_.endpoint,
                                                       id, name));
    ProducerSettings settings = settings_.producer;
    settings.max_records =
        std::max<std::size_t>(settings.max_records >> std::min(oversized_batches, 20), 1);
    return hand_out(std::make_unique<Producer>(around_.clock, around_.random, around_.trace,
                                               around_.cluster, around_.network, watch, settings,
                                               id, name));
}

void
Relay::start()
{
    around_.trace.say("the relay starts");
    set_lane_key(around_.database.lane_key());
    if (settings_.new_lanes)
        around_.database.change_lane_key();
    source_ =
        std::make_unique<SimSource>(around_.clock, around_.trace, around_.database, around_.store);
    engine_ = std::make_unique<Engine>(
        World{*source_, *source_, replays_, *this, around_.clock, tally_}, settings_.limits);
    pausing_ = std::make_unique<Guarded>("writing outbox.pauses", *source_, around_.clock);
    source_->show_backlog(backlog_.base, backlog_.counted);
    const PositionRow &stored = OUTBOX_MUTANT(reads_other_position)
                                    ? around_.database.of_default().tables().position
                                    : around_.store.tables().position;
    around_.checker.relay_starts();
    engine_->start({{stored.from, stored.to, stored.last_seq}, stored.published_total}, backlog_);
    engine_->configure(settings_.policy);
    around_.store.set_served(true);
    rounds_before_ = rounds_;
    state_ = State::running;
    gives_up_ = false;
    enabled_ = true;
    look_ = true;
    next_at_ = maintain_at_ = around_.clock.at();
}

void
Relay::set_policy(const FailurePolicy &policy)
{
    settings_.policy = policy;
    if (engine_)
        engine_->configure(policy);
    latch_ = true;
}

void
Relay::set_usable(bool usable)
{
    if (usable_ != usable)
        around_.trace.say("sinks %s be opened", usable ? "can" : "cannot");
    usable_ = usable;
}

// As the relay does with settings that were not usable.
void
Relay::retry_destination()
{
    if (enabled_ || retry_at_ > around_.clock.at())
        return;
    retry_at_ = around_.clock.at() + kRetry;
    if (usable_)
        restart();
}

void
Relay::tell_of_change() noexcept
{
    changed_ = true;
    latch_ = true;
}

// What a clock that was set back has put off becomes due, as in bgworker/maintenance.
void
Relay::maintain()
{
    RelayStore &store = around_.store;
    if (around_.clock.at() < maintain_at_ || OUTBOX_MUTANT(leaves_late_attempts))
        return;
    maintain_at_ = around_.clock.at() + kMaintain;
    const Time now = around_.clock.wall();
    const Time latest = now + settings_.policy.backoff_max_ms * kMs + 60 * kSecond;
    const auto is_late = [&](const Delivery &row)
    {
        return row.state == DeliveryState::retrying && row.next_attempt_at > latest &&
               store.may_change(row.seq);
    };
    const auto &rows = store.tables().deliveries();
    if (around_.database.is_locked(Table::events) ||
        std::none_of(rows.begin(), rows.end(),
                     [&](const auto &item) { return is_late(item.second); }))
        return;
    around_.trace.say("what the clock has put off is due");
    store.operate(
        [&](RelayTables &tables)
        {
            for (auto &item : tables.change_deliveries())
                if (is_late(item.second))
                    item.second.next_attempt_at = now;
        });
    changed_ = true;
}

void
Relay::run_round()
{
    maintain();
    const Time now = around_.clock.at();
    rounds_++;
    around_.clock.advance(around_.random.between(5, 60));
    if (latch_ || now - looked_at_ >= kPollMs * kMs)
    {
        look_ = true;
        looked_at_ = now;
    }
    latch_ = false;
    if (changed_)
        engine_->deliveries_changed();
    changed_ = false;
    const Time began = around_.clock.at();
    const Engine::Round round = engine_->round(look_);
    around_.checker.turn(around_.clock.at() - began);
    constexpr const char *kSteps[] = {"idle", "busy", "full", "standby", "locked", "gone"};
    if (around_.trace.in_words() && round.step != told_step_)
        around_.trace.say("the relay is %s", kSteps[static_cast<int>(round.step)]);
    told_step_ = round.step;
    if (round.step == StepResult::idle)
        look_ = false;
    if (engine_->gone() != nullptr)
        stop_for_destination();
    retry_destination();
    if (state_ == State::ending)
        return;
    const long wait_ms = sooner(sooner(round.wait_ms, engine_->replay()), kPollMs);
    next_at_ = around_.clock.at() + wait_ms * kMs;
}

void
Relay::restart()
{
    if (state_ != State::running)
        return;
    around_.trace.say("the relay is asked to end");
    source_->ask_to_end();
    state_ = State::ending;
    end_by_ = around_.clock.at() + kDrain;
    next_at_ = around_.clock.at();
}

// A session may hold the table, or the disk be full: then it is written later.
void
Relay::stop_for_destination()
{
    RelayStore &store = around_.store;
    const bool written = !around_.database.is_locked(Table::events) &&
                         pausing_->run(
                             [&]
                             {
                                 store.begin_transaction();
                                 store.statement(RelayStore::Statement::writes);
                                 store.change().paused = store.change().left = true;
                                 store.end_transaction();
                             });
    if (!written)
        return;
    around_.trace.say("the destination is not called again");
    restart();
}

void
Relay::stop(Time pause)
{
    around_.trace.say("the relay has ended");
    if (source_)
        backlog_ = around_.store.tables().detached ? StoredBacklog() : source_->backlog();
    around_.store.roll_back();
    if (engine_)
        engine_->close(0);
    engine_.reset();
    built_ = built();
    pausing_.reset();
    source_.reset();
    around_.store.set_served(false);
    state_ = State::down;
    next_at_ = around_.clock.at() + pause;
}

void
Relay::die()
{
    if (state_ != State::down)
        stop(around_.random.between(50, 1000) * kMs);
    else
        next_at_ = std::max(next_at_, around_.clock.at() + 50 * kMs);
    backlog_ = {};
}

// What Kafka acknowledges in the last moments need not be sent again.
void
Relay::end_some()
{
    if (around_.beside_others)
        latch_ = false; // commits are nothing to it any more
    const bool waits = engine_->hear_last();
    const Time now = around_.clock.at();
    next_at_ = now + 100 * kMs;
    if (waits && now < end_by_)
        return;
    const bool may_write = !around_.database.is_locked(Table::events) &&
                           !around_.database.is_locked(Table::position) &&
                           !around_.store.writes_fail();
    if (engine_->save_last() != SaveResult::gone && gives_up_ && engine_->has_unsaved())
        next_at_ = now + kSecond;
    else
    {
        if (may_write)
            around_.checker.relay_has_ended();
        stop(gives_up_ ? kSecond : 20 * kMs);
    }
}

bool
Relay::may_start() const
{
    return !held_ && (!around_.store.tables().detached || OUTBOX_MUTANT(serves_detached));
}

bool
Relay::has_news() const
{
    return latch_ || std::any_of(sinks_.begin(), sinks_.end(),
                                 [](const SimSink *sink) { return sink->has_news(); });
}

void
Relay::take_turn()
{
    const bool due = next_at_ <= around_.clock.at();
    try
    {
        if (state_ == State::down && due && may_start())
            start();
        else if (state_ == State::running && (due || has_news()))
            run_round();
        else if (state_ == State::ending && (due || has_news()))
            end_some();
    }
    catch (const DatabaseError &)
    {
        around_.trace.say("an ERROR ends the relay");
        around_.store.roll_back();
        state_ = State::ending;
        gives_up_ = true;
        end_by_ = around_.clock.at() + kDrain;
        next_at_ = around_.clock.at();
    }
    catch (const Killed &)
    {
        around_.store.roll_back();
        around_.server.crash();
    }
}

// One that runs beside others takes none of their time: what it does happens when it begins, and it
// is busy for as long as that took.
void
Relay::advance()
{
    for (std::size_t i = 0; i < sinks_.size(); i++)
        sinks_[i]->advance();
    if (busy_until_ > around_.clock.at())
        return;
    const Time began = around_.clock.at();
    take_turn();
    if (around_.beside_others)
    {
        busy_until_ = around_.clock.at();
        around_.clock.go_back(began);
    }
    watch();
}

void
Relay::watch()
{
    Checker &checker = around_.checker;
    if (source_ && source_->take_written())
        checker.tables_changed();
    if (XidSnapshot tick; source_ && source_->take_tick(tick))
        checker.ticked(tick);
    if (!engine_)
        return;
    const Publisher &publisher = engine_->publisher();
    // What is afloat counts as acknowledged, and may be half as much again.
    checker.in_flight(publisher.outstanding(), settings_.limits.max_events * 3 / 2 + 2);
    const EngineReport report = publisher.report();
    checker.in_flight_bytes(report.in_flight_events, report.in_flight_bytes,
                            settings_.limits.max_bytes);
    checker.counted("published", tally_.published(), checker.acknowledged());
    if (state_ != State::running || rounds_ == rounds_before_)
        return;
    if (publisher.backlog_known() && publisher.backlog_counted())
        checker.backlog(static_cast<std::int64_t>(source_->emitted() - source_->backlog().base));
    checker.saves(source_->saves(), engine_->has_unsaved());
}

Time
Relay::next_event_at() const
{
    Time next = state_ != State::down && has_news() ? around_.clock.at() : next_at_;
    next = state_ == State::down && !may_start() ? kNever : std::max(next, busy_until_);
    for (const SimSink *sink : sinks_)
        next = std::min(next, sink->next_event_at());
    return next;
}

bool
Relay::is_idle() const
{
    return state_ == State::running && rounds_ > rounds_before_ && engine_->publisher().idle() &&
           !engine_->has_unsaved();
}

} // namespace outbox::sim
