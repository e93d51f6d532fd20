// The relay's work, apart from PostgreSQL and from Kafka: committed events go to a destination, in
// order for each key, and what is acknowledged becomes the position.
#pragma once

#include "guarded.h"
#include "world.h"

#include "bgworker/engine/replay/replay.h"
#include "bgworker/engine/stream/publisher.h"

namespace outbox
{

// One thread; nothing waits but Sink::reachable(). Throws DatabaseError, after which the one that
// runs it hears what is still to be heard, saves, and ends it; or std::bad_alloc, with the same
// end. Whoever runs it does this again and again:
//
//     if (a person has changed something)   engine.deliveries_changed();
//     const Engine::Round round = engine.round(may_be_news);
//     (look at round.step and round.saved)
//     const long wait_ms = sooner(round.wait_ms, engine.replay());
//     (wait for so long, or until news: a commit, a sink's wake-up, a person)
//
// `may_be_news` is true after a commit, and once a second all the same.
class Engine
{
public:
    struct Limits
    {
        std::size_t max_events; // in flight
        std::size_t max_bytes;
    };

    // Throws std::bad_alloc.
    Engine(const World &world, const Limits &limits);

    // Continues from the position. Once, before anything else. Throws std::bad_alloc.
    void start(const StoredPosition &stored, const StoredBacklog &backlog);
    // May be called again between two rounds.
    void configure(const FailurePolicy &policy) noexcept;

    struct Round
    {
        StepResult step = StepResult::idle;
        SaveResult saved = SaveResult::done;
        // Until the next round at most; -1: until there is news.
        long wait_ms = -1;
    };
    // Hears the sinks, hands over what may go, writes the position when that is due. When `step`
    // or `saved` is `gone` the rest was not done.
    Round round(bool may_be_news);
    // Published events go out again, when nothing new waits. Returns as Round::wait_ms.
    long replay();

    // Rows of outbox.deliveries, outbox.pauses or the replays were changed by a person.
    void deliveries_changed() noexcept;
    // A setting that routes fall back to was changed, or the source has changed
    // outbox.deliveries itself.
    void routes_changed() noexcept { publisher_.reload_routes(); }

    // Null, or why the destination asks never to be called again. Nothing goes out any more; what
    // was on its way may be acknowledged yet. A new engine begins as if it had not asked.
    const Failure *gone() const noexcept { return publisher_.gone(); }

    // The end: hears the sinks. Returns whether it is worth to wait for more.
    bool hear_last();
    // The end: writes how far all is. What could not be written is still has_unsaved() then.
    // `gone`: and cannot be.
    SaveResult save_last();
    bool has_unsaved() const noexcept { return publisher_.has_unsaved(); }
    // Closes the sinks, and waits so long for each but the stream's.
    void close(int wait_ms) noexcept;

    // What is shown of it.
    const Publisher &publisher() const noexcept { return publisher_; }

private:
    long publish(Steady now, bool may_be_news);
    long save(bool at_once);
    void show_backlog(std::uint64_t less = 0) noexcept;

    const World world_;
    Publisher publisher_;
    Replay replay_;
    StepResult step_ = StepResult::idle; // of the last round
    SaveResult saved_ = SaveResult::done;
    Guarded saving_;
    Guarded ticking_;
    Guarded setting_aside_;
    Guarded saving_replay_;
};

} // namespace outbox
