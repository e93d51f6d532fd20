// One relay's work: windows of committed events go to Kafka, acknowledgements become the position.
#pragma once

#include "bgworker/core/backoff.h"
#include "bgworker/core/isolation.h"
#include "bgworker/core/progress.h"
#include "bgworker/core/window_keys.h"
#include "bgworker/kafka/producer.h"
#include "extension/core/routes.h"

#include "bgworker/records/event_reader.h"
#include "bgworker/records/routing.h"
#include "bgworker/redelivery/redelivery.h"
#include "bgworker/relay/stats.h"
#include "position_store.h"

#include "extension/shared_state.h"

#include <memory>
#include <unordered_map>

namespace outbox
{

enum class StepResult
{
    idle,    // nothing more to hand over at present
    busy,    // there is more
    full,    // there may be more, but what is in flight must be acknowledged first
    standby, // the next events are not yet safe on the synchronous standbys
    locked,  // a table is exclusively locked by somebody
    gone     // the extension is not there any more
};

enum class SaveResult
{
    done, // or there is nothing to save yet
    gone, // the table's row is not there
    locked
};

// Lives on the heap as long as the process. Methods that call PostgreSQL may be left by longjmp, so
// they keep no object with a destructor on their frames; those of EventSink call no PostgreSQL.
class Publisher final : public kafka::EventSink
{
public:
    // Throws std::bad_alloc.
    Publisher(std::size_t max_events, std::size_t max_bytes, Stats &stats);

    // Goes on from the position; `slot` knows of the backlog. Throws std::bad_alloc.
    void start(const StoredPosition &stored, DatabaseSlot *slot);
    void configure(const FailurePolicy &policy) noexcept;

    // Takes over the producer; null ends publishing.
    void set_producer(kafka::Producer *producer) noexcept;
    bool has_producer() const noexcept { return producer_ != nullptr; }

    // Hands the next events over, in one short transaction. Opens a new window when the one before
    // is through and `look` is set.
    StepResult publish(bool look);

    // There is nothing more to hand over for the moment.
    void send_now() noexcept
    {
        if (producer_)
            producer_->send_now();
    }

    // Hears what Kafka has to say. Returns true when there was something.
    bool serve();

    // After a failure, once nothing is outstanding and the pause is over: sets refused events aside
    // and goes back to the acknowledged prefix. Returns how long to wait at most before the next
    // call, in ms; -1: as you like.
    long recover(TimestampTz now);

    // After an ERROR of publish() or recover() whose transaction is rolled back: nothing that it
    // has set aside is set aside, and the events are read again. What Kafka has acknowledged stays
    // known, so nothing is published again.
    void rolled_back();
    // How many transactions have set events aside, or noted what became of such.
    std::uint64_t writes() const noexcept { return writes_; }

    // The table outbox.deliveries or outbox.pauses was changed by somebody.
    void reload_deliveries() noexcept { redelivery_.reload_soon(); }
    bool paused() const noexcept { return redelivery_.paused(); }
    // A setting that routes fall back to was changed.
    void reload_routes() noexcept { reload_routes_ = true; }
    // Whether there are routes to publish by, and what is wrong with the table; empty: nothing.
    bool has_routes() const noexcept;
    const char *routes_problem() const noexcept { return routes_problem_; }
    // When the next event is to be tried again, in ms; -1: none is, or something else comes first.
    long redeliver_within_ms(TimestampTz now) const noexcept;

    // Writes the position, in a transaction of its own, when it is due. Sets *wait_ms to when it
    // will be due, -1: not before something happens. An ERROR leaves the publisher as it is.
    SaveResult save_if_due(bool at_once, long *wait_ms);
    // Whether Kafka has acknowledged more than the position in the table says.
    bool has_unsaved() const noexcept
    {
        return progress_.acknowledged_prefix() != saved_prefix_ ||
               redelivered_ != saved_redelivered_;
    }
    // Notes that the saved position is reached, in a transaction of its own, at most once a second.
    // It serves published_at and retention; the position must not wait for it.
    void tick_if_due();

    // How often a batch of several events was too large for its topic; the next producer should
    // make smaller ones.
    int oversized_batches() const noexcept { return oversized_batches_; }

    // Events published by this process.
    std::int64_t published() const noexcept;

    // The committed events that are not published are those emitted since the server started, less
    // this; events that were set aside, or are there from before, included. They are counted anew
    // with each window; when one is gone back to, its acknowledgements are added instead, as not
    // all windows behind it are known. Rows of transactions that rolled back count until they are
    // met.
    std::uint64_t backlog_base() const noexcept;
    // Whether that includes what was there before the server started.
    bool backlog_counted() const noexcept { return backlog_counted_; }
    bool backlog_known() const noexcept { return backlog_known_; }

    // Nothing read is unpublished, and nothing is in flight.
    bool caught_up() const noexcept;
    // The same, and no refused or waiting event is on its way either.
    bool idle() const noexcept;
    std::size_t outstanding() const noexcept { return producer_ ? producer_->outstanding() : 0; }

    // How long the caller may wait before serve() must be called, in ms; -1: until wake_fd is set.
    long serve_within_ms() const noexcept { return producer_ ? producer_->serve_within_ms() : -1; }

    // The part of the report that publishing knows; the state only when it is not the caller's.
    void fill_report(RelayReport *report) const noexcept;
    bool backing_off() const noexcept { return backoff_.failures() > 0; }
    TimestampTz last_published_at() const noexcept { return last_published_at_; } // 0: never

    void batch(std::size_t records) noexcept override;
    void delivered(std::uint64_t tag) noexcept override;
    void failed(std::uint64_t tag, const kafka::Failure &failure) noexcept override;
    void trouble(const kafka::Failure &failure) noexcept override;
    void log(int level, const char *facility, const char *text) noexcept override;

private:
    enum class HandOver
    {
        done, // handed over, set aside, or there is no such row
        full,
        halted
    };

    bool may_read(bool look) noexcept;
    bool may_redeliver(TimestampTz now) const noexcept;
    OpenResult begin();
    void end();
    void open_window(std::uint64_t mark);
    StepResult read_stream(std::uint64_t mark, bool look);
    bool read_keys();
    bool window_is_durable();
    bool hand_over_some();
    int group_limit();
    void note_oldest_waiting();
    HandOver no_room() noexcept;
    HandOver hand_over(const EventKey *key, TimestampTz now);
    bool is_done(const EventRow &event, const EventKey *key);
    HandOver produce(const EventRow &event, const EventLine &line, const EventKey *key,
                     kafka::Record *record);
    void set_aside(const EventRow &event, const EventKey *key) noexcept;
    bool redeliver(TimestampTz now);

    bool awaits_routes() const noexcept;
    StepResult follow_routes();
    void note_routes(RoutesLoaded loaded, const Verdict &verdict);

    bool settle_refusals();
    void park_refused_tags();
    void note_batch_size(std::size_t refused);
    void settle_suspects(std::size_t refused);
    bool may_release() const noexcept;
    void park_tag(std::uint64_t tag, const kafka::Failure &failure);
    void take_all_back(TimestampTz now);
    void give_up_stuck(TimestampTz now);
    void rewind();
    void note_failure(const kafka::Failure &failure) noexcept;
    void note_success() noexcept;
    long pause_left(TimestampTz now) const noexcept;
    long watch_attempts(TimestampTz now);
    void tell_log();

    Progress progress_;
    WindowKeys keys_;
    const std::size_t max_bytes_;
    std::unique_ptr<kafka::Producer> producer_;

    EventTables tables_ = {};
    MemoryContext event_context_ = nullptr; // reset for each event
    XidSnapshot read_up_to_;                // end of the last window that was opened
    bool window_open_ = false;
    bool crowded_ = false;           // there was no room, and there is not ample room yet
    std::uint64_t emitted_mark_ = 0; // the shared count when it was opened
    bool went_back_ = false;         // to a window that was opened before
    std::uint64_t base_then_ = 0;
    std::uint64_t prefix_then_ = 0;
    bool own_window_ = false;    // one was opened by this process
    bool backlog_known_ = false; // not while a window is being looked through
    bool backlog_counted_ = false;
    bool ask_standbys_ = false; // how far they must be for it is not known yet
    XLogRecPtr on_standbys_ = InvalidXLogRecPtr;
    TimestampTz oldest_waiting_ = 0;

    Stats &stats_;
    TimestampTz sending_at_ = 0; // the clock, as of some events ago
    TimestampTz heard_at_ = 0;   // the clock when the batch under way came back
    std::size_t batch_ = 0;      // its records; 0: it is counted

    Redelivery redelivery_;
    TimestampTz quiet_since_ = 0; // when nothing was due for the last time
    FailurePolicy policy_ = {};

    bool reload_routes_ = true;
    std::int64_t moved_up_to_ = PG_INT64_MAX; // of the events that were set aside
    char routes_problem_[512] = "";

    // Nothing is handed over until recover() has gone back to the acknowledged prefix.
    bool halted_ = false;
    bool dead_ = false; // the producer is
    TimestampTz dead_since_ = 0;

    // Events behind the prefix at the last rewinds that need not be handed over again, and whether
    // they were published (or set aside). No more than the ring holds.
    std::unordered_map<std::int64_t, bool> done_;

    // Events that the transaction under way has set aside: they count as done when it is committed.
    std::vector<std::uint64_t> aside_;
    bool routes_moved_ = false; // it has given events other topics
    std::uint64_t writes_ = 0;

    // Events of the stream that Kafka refused and that are not yet set aside: each for itself, with
    // their topic; or some among those that were sent together.
    std::vector<std::uint64_t> refused_tags_;
    kafka::Failure topic_refusal_;
    std::size_t suspects_ = 0;
    std::uint64_t first_suspect_ = 0;
    std::size_t suspects_reach_ = 0;
    kafka::Failure refusal_;
    Isolation isolation_;
    std::size_t sent_in_group_ = 0;
    int oversized_batches_ = 0;
    int oversized_suspected_ = 0; // of those, while a single event may be the culprit after all
    bool stream_turn_ = false;    // while a culprit is looked for among waiting events

    // The first event in flight, and since when it is the first.
    std::uint64_t first_tag_ = 0;
    TimestampTz first_since_ = 0;

    Backoff backoff_;
    TimestampTz next_attempt_at_ = 0;
    kafka::Failure trouble_; // the last news that was more telling than "all brokers are down"
    kafka::Failure last_failure_;
    TimestampTz last_failure_at_ = 0;
    bool failure_untold_ = false;
    bool recovery_untold_ = false;
    std::uint32_t failures_before_recovery_ = 0;

    std::int64_t published_before_ = 0; // by earlier relays
    std::uint64_t redelivered_ = 0;
    TimestampTz last_published_at_ = 0;
    std::uint64_t saved_prefix_ = 0;
    std::uint64_t saved_redelivered_ = 0;
    bool saved_open_ = false;   // with a window under way
    std::int64_t saved_at_ = 0; // these by the steady clock
    std::int64_t tick_at_ = 0;
    bool tick_due_ = false;

    struct LogLine
    {
        int level;
        char text[512];
    };
    static constexpr int kMaxLogLines = 16;
    LogLine log_lines_[kMaxLogLines];
    int log_count_ = 0;
    int log_dropped_ = 0;
};

} // namespace outbox
