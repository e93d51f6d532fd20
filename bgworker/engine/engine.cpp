#include "engine.h"

#include "mutant.h"

#include "bgworker/engine/common/sooner.h"

namespace outbox
{

namespace
{

constexpr long kLockedMs = 100;
constexpr long kStandbyMs = 2;
constexpr std::int64_t kLongestPauseMs = 5000;

} // namespace

Engine::Engine(const World &world, const Limits &limits)
    : world_(world), publisher_(world, limits.max_events, limits.max_bytes), replay_(world),
      saving_("writing outbox.relay_position", world.source, world.clock),
      ticking_("writing outbox.ticks", world.source, world.clock),
      setting_aside_("writing outbox.deliveries", world.source, world.clock, kLongestPauseMs),
      saving_replay_("writing outbox.replay_requests", world.source, world.clock)
{
}

void
Engine::start(const StoredPosition &stored, const StoredBacklog &backlog)
{
    publisher_.start(stored, backlog);
}

void
Engine::configure(const FailurePolicy &policy) noexcept
{
    publisher_.configure(policy);
    replay_.configure(policy);
}

void
Engine::deliveries_changed() noexcept
{
    publisher_.reload_deliveries();
    replay_.look_soon();
}

// Where backends look before they emit: one read for each event. `less`: so many wait again.
void
Engine::show_backlog(std::uint64_t less) noexcept
{
    if (publisher_.backlog_known())
        world_.source.show_backlog(publisher_.backlog_base() - less, publisher_.backlog_counted());
}

// Returns when the position is to be written, in ms; -1: not before something happens. What cannot
// be written is remembered here, and nothing is published again as long as this lives. So
// publishing continues when the position cannot be written, as with a full disk, which lasts; for a
// lock, which a session is about to release, it waits.
long
Engine::save(bool at_once)
{
    long wait_ms = -1;
    if (at_once)
        saving_.retry_now();
    const bool ran = saving_.run([&] { saved_ = publisher_.save_if_due(at_once, &wait_ms); });
    if (saving_.failing())
        saved_ = SaveResult::done;
    if (ran && saved_ == SaveResult::gone)
        return 0;
    if (ran && saved_ == SaveResult::locked)
        return kLockedMs;
    if (ran)
        (void) ticking_.run([&] { publisher_.tick_if_due(); });
    return saving_.failing() ? saving_.due_within_ms() : wait_ms;
}

// What is to be set aside and cannot be, as with a full disk, holds up the stream, and nothing of
// it goes out again. Other errors end the relay. Returns until when to wait at most.
long
Engine::publish(Steady now, bool may_be_news)
{
    step_ = StepResult::full;
    if (!setting_aside_.is_due())
        return setting_aside_.due_within_ms();
    long wait_ms = -1;
    const std::uint64_t writes = publisher_.writes();
    const bool good = setting_aside_.watch(
        [&]
        {
            wait_ms = publisher_.recover(now);
            publisher_.connect();
            // What is published behind a position that is locked would come again after a crash.
            step_ = saved_ == SaveResult::locked && !OUTBOX_MUTANT(publishes_unsaved)
                        ? StepResult::locked
                        : publisher_.publish(may_be_news);
        });
    if (!good)
    {
        publisher_.rolled_back();
        step_ = StepResult::full;
        return setting_aside_.due_within_ms();
    }
    if (setting_aside_.failing() && publisher_.writes() > writes)
        setting_aside_.note_success();
    return wait_ms;
}

Engine::Round
Engine::round(bool may_be_news)
{
    (void) publisher_.serve();
    const Moment now = world_.clock.now();
    long wait_ms = publish(now.steady, may_be_news);
    if (step_ != StepResult::busy)
        publisher_.send_now();
    Round round;
    round.step = step_;
    switch (step_)
    {
    case StepResult::busy:
        wait_ms = 0;
        break;
    case StepResult::idle:
    case StepResult::full:
        break;
    case StepResult::standby:
        wait_ms = sooner(wait_ms, kStandbyMs);
        break;
    case StepResult::locked:
        wait_ms = sooner(wait_ms, kLockedMs);
        break;
    case StepResult::gone:
        return round;
    }
    // What is locked, or cannot be written, is looked at again no sooner because there would be
    // something to do.
    if ((step_ != StepResult::locked || OUTBOX_MUTANT(spins_when_locked)) &&
        setting_aside_.is_due())
        wait_ms = sooner(wait_ms, publisher_.redeliver_within_ms(now));
    // Before those who wait for the position hear of it.
    world_.tally.flush(publisher_.idle());
    show_backlog();
    wait_ms = sooner(wait_ms, save(false));
    round.saved = saved_;
    round.wait_ms = sooner(wait_ms, publisher_.serve_within_ms());
    return round;
}

long
Engine::replay()
{
    constexpr std::size_t kFew = 1000; // on their way, as always under load
    const bool may_send = step_ == StepResult::idle && publisher_.outstanding() < kFew &&
                          publisher_.is_connected() && !publisher_.backing_off() &&
                          (!publisher_.paused() || OUTBOX_MUTANT(replays_paused)) &&
                          gone() == nullptr;
    const long wait_ms =
        replay_.step({may_send, publisher_.last_published().steady}, world_.clock.steady());
    if (replay_.left().cls == FailureClass::gone && !OUTBOX_MUTANT(replays_to_gone))
        publisher_.leave(replay_.left());
    return wait_ms;
}

bool
Engine::hear_last()
{
    (void) publisher_.serve();
    replay_.hear();
    return (publisher_.all_outstanding() > 0 || replay_.is_waiting()) && !publisher_.backing_off();
}

SaveResult
Engine::save_last()
{
    world_.tally.flush(true);
    setting_aside_.retry_now();
    if (!setting_aside_.run([&] { publisher_.note_last(); }))
        publisher_.rolled_back();
    (void) save(true);
    if (!OUTBOX_MUTANT(forgets_last_replayed))
        (void) saving_replay_.run([&] { replay_.save_now(world_.clock.steady()); });
    show_backlog(publisher_.unsaved()); // as the next process counts from what is written
    return saved_;
}

void
Engine::close(int wait_ms) noexcept
{
    replay_.close(wait_ms);
    publisher_.close(wait_ms);
}

} // namespace outbox
