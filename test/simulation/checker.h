// What must be true at any moment, whatever happens.
#pragma once

#include "world/cluster.h"
#include "world/producer.h"
#include "world/relay_store.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

namespace outbox::sim
{

// Of one subscription. Knows of each event what is true of it: emitted, committed, taken by the
// subscription, in Kafka. Promises, as README makes them:
//   lost       a position passes an event that is neither in Kafka nor in outbox.deliveries; or an
//              event is not published when all is well for long
//   invented   Kafka has an event whose transaction has not committed, or not safely
//   untaken    Kafka has an event that the subscription does not take: of a type that it did not
//              take when the event was committed, or from before it began
//   missed     what a detached subscription misses is not what was removed, or left out
//   held       the ring waits for a subscription that has nothing to send
//   replay     a replay sends what is not in its list, or not in its order, ends before all of it
//              has arrived, or says that more was refused than could be
//   order      of two events with the same topic and key the later one is in Kafka first: the
//              later is of the same transaction, or was emitted after the other had committed
//   repeated   Kafka has an event twice although nothing was in doubt
//   stalled    a destination that is well, and was, stands still for longer than two seconds
//   stuck      an event does not go out although its destination has been well for long
//   total      published_total is not the number of events that were published
//   blamed     an event has FAILED that a destination has never refused, which says so of each
//   backlog    the relay shows another number of waiting events than there are
//   counts     it has counted something else than there was
//   bounds     more is in flight than may be
//   back       the position goes back
//   late       what was acknowledged is not written down, and would be repeated after a crash
//   paused     an event is handed over while the relay is paused
//   called     an event is handed over after the destination has asked never to be called again
//   spins      the relay works on and on, and nothing comes of it
class Checker final : public EventFate, public LogReader, public ProducerWatch
{
public:
    Checker(SimClock &clock, Trace &trace) : clock_(clock), trace_(trace) {}
    void watch(Database &database) noexcept { database_ = &database; }
    // The destination refuses records one by one.
    void refuses_alone() noexcept { alone_ = true; }
    // With more than one request in flight a refusal may reorder: an operator's choice.
    void excuse_order() noexcept { order_excused_ = true; }
    // How long all may take once it is well, and how long a destination that is well may stand
    // still.
    // `in_turn`: so few may be in flight that destinations wait for each other.
    void set_patience(Time patience, Time stall, bool in_turn) noexcept
    {
        patience_ = patience;
        stall_ = stall;
        in_turn_ = in_turn;
    }
    // Events of this type go to another topic from now on.
    void routed(int type);

    // --- What the subscription takes: types, a bit each ---
    // Its destination is another one whenever it is created.
    void exists(RelayStore &store, Cluster &cluster) noexcept
    {
        store_ = &store;
        cluster_ = &cluster;
    }
    void takes_all() noexcept { types_ = ~0U; }
    // A transaction has just called a function that changes it: what commits later is another
    // matter, if that commits.
    void changes() noexcept { called_stamp_ = ++stamp_; }
    void created(unsigned types, bool retained);
    void altered(unsigned types);
    // The tables are still as they were.
    void attached(bool retained);
    void detached() noexcept;
    void dropped();
    // The server has crashed, and may have forgotten that it was detached.
    void crashed() noexcept;
    // What the subscription says of what it misses is looked at.
    void check_missed();
    bool has_passed_all() const;
    // Delivered reports that relays have heard.
    std::size_t acknowledged() const noexcept { return acknowledged_; }
    // What the relay shows of the backlog, if it knows it.
    void backlog(std::int64_t waiting);
    // What it has counted, and what there was to count.
    void counted(const char *what, std::size_t counted, std::size_t right);
    std::size_t taken() const noexcept { return taken_; }
    std::size_t missed() const noexcept { return static_cast<std::size_t>(missed_); }

    // The first thing that was wrong; empty: nothing yet. `kind` is one of the words above.
    const std::string &failure() const noexcept { return failure_; }
    const std::string &kind() const noexcept { return kind_; }

    void emitted(const EventRow &row) override;
    void committed(int event) override;
    void vanished(int event) override;
    void removed(int event) override;
    void appended(const Place &place, const Message &message) override;
    void misdirected(const Place &place, Time until) override;
    void in_doubt(int event) override;
    void handed_over(int event, bool by_stream) override;
    void acknowledged(int event) override;
    void drains(bool begun) override;
    void refused_alone(int event, bool topic) override;
    void is_left() override { left_ = true; }

    // A relay starts: what its position does not tell of, it may send again.
    void relay_starts();
    // A relay has ended in order, and nothing has kept it from writing what it knew.
    void relay_has_ended();
    // The position, or outbox.deliveries, was written; or a crash took back some of it.
    void tables_changed();
    // Nothing could be published until now, and that is nobody's fault.
    void disturbed(Time and_for) noexcept
    {
        undisturbed_since_ = std::max(undisturbed_since_, clock_.at() + and_for);
    }
    // An operator has given the event up: it may go out, or not, at any place.
    void discarded(int event) { facts_[static_cast<std::size_t>(event)].skipped = true; }
    // A person has settled what the event was waiting for, or what was wrong with it: it, and what
    // is behind it, counts as new.
    void settled(int event);
    // What could not be read can be from now on.
    void repaired();
    // This topic gets another limit: what was too large for it may not be any more.
    void limits(const std::string &topic);
    // And it is this one.
    void limited(int bytes) noexcept { smallest_limit_ = std::min(smallest_limit_, bytes); }
    // Some topic is missing, or forbidden: any of its events may be refused.
    void topic_refuses() noexcept { topics_refuse_ = true; }
    // A broker has refused records of this place.
    void refused(const Place &place);
    void in_flight(std::size_t events, std::size_t most);
    // The same in bytes, as the relay counts them; of more than one event.
    void in_flight_bytes(std::size_t events, std::size_t bytes, std::size_t most);
    // So often has the relay written the position so far; `unsaved`: it knows of more.
    void saves(std::size_t count, bool unsaved);
    // It could not be, for want of space.
    void save_fails() noexcept
    {
        save_fails_ = tick_fails_ = true;
        kept_since_ = kNever;
    }
    void ticked(const XidSnapshot &snapshot);
    // Of a replay's sink.
    void replay_hands_over(int event);
    void replay_acknowledged(int event);
    // The relay took so long for one turn, in which it looked at nothing new.
    void turn(Time took);
    // So many turns has the relay taken so far.
    void rounds(std::size_t count);
    // The moments in between.
    void tick();
    bool is_tick_due() const noexcept { return clock_.at() - ticked_at_ >= kTick; }
    // The end, after a time in which all was well.
    void end();

    bool all_done() const;
    bool replays_done() const;
    std::size_t published() const noexcept { return published_; }
    std::size_t refusals() const noexcept { return refusals_; }
    std::size_t repeats() const noexcept { return repeats_; }

private:
    static constexpr Time kTick = 100 * kMs;

    struct Fact
    {
        bool committed = false;
        bool gone = false;     // rolled back, or forgotten
        bool taken = false;    // by the subscription, if it has committed
        bool removed = false;  // with its slot
        bool skipped = false;  // refused while later ones need not wait for it
        bool unplaced = false; // and its row is there still: it waits for nobody, nor they for it
        std::uint64_t emitted_stamp = 0;
        std::uint64_t committed_stamp = 0;
        std::uint64_t routed_stamp = 0; // when its type got another topic
        Time committed_at = 0;
        Time routed_at = 0;      // the same
        Time paused_at = 0;      // what it waited for was not to be tried yet
        Time settled_at = 0;     // it, or what it waited for
        bool heard = false;      // by this relay, that it has arrived
        bool streamed = false;   // it was in the queue of a stream's producer
        bool countable = false;  // when a relay started it had arrived, and had no row
        int refusals = 0;        // of it alone
        bool unreadable = false; // when it was emitted
        int copies = 0;
        int doubts = 0;
    };
    struct PlaceFacts
    {
        bool clean = true; // had nothing to make up for since it was well last
        Time well_since = kBegin;
        Time appended_at = 0;
        Time misdirected_until = 0;
        Time refused_at = 0;
    };
    // An event of a key, in a topic.
    struct Appended
    {
        int event;
        Xid xid;
        Seq seq;
        std::uint64_t emitted;
        std::uint64_t at;
    };

    struct Replayed
    {
        bool begun = false;
        std::uint64_t begun_stamp = 0;
        std::set<int> events;
        std::set<int> heard; // of these, by the relay
        // Handed over by this relay, or those before: if one was refused, and that is forgotten, it
        // is sent once more.
        std::set<int> handed;
        std::set<int> tried;
        // The last of each type, by topic and key.
        std::map<std::pair<std::string, std::string>, std::map<int, Seq>> last;
    };

    void fail(const char *kind, const std::string &text);
    bool is_covered(const EventRow &row) const;
    bool is_missed(int event) const;
    void take(int event, bool taken);
    void miss(int event);
    void replayed(const Place &place, const Message &message);
    void check_replay_order(const Place &place, const Message &message, Replayed &replay);
    bool was_routed(int type, const Replayed &since) const;
    bool is_idle() const;
    // Unless its topic is.
    bool is_refusable(int event) const;
    void check_replays();
    void check_replays_written();
    void check_position();
    void check_written();
    void check_may_send(const std::string &name);
    void check_total();
    void check_order(const Place &place, const Message &message, const Fact &fact);
    Place place_of(const EventRow &row) const;
    bool goes_to(const Place &place, const EventRow &row);
    bool is_at_fault(const EventRow &row) const;
    // What a person may have to settle, and what waits for that, has no limit.
    bool is_settled_by_person(const EventRow &row) const;
    bool waits_for_person(const EventRow &row) const;
    bool holds_up(int other, int event) const;
    bool waits_for_other(int event) const;
    bool waits_for_pause(const EventRow &row) const;
    void look_at_pauses();
    Time longest_turn() const;
    Time longest_stall() const;
    void check_place(const Place &place, PlaceFacts &facts);

    SimClock &clock_;
    Trace &trace_;
    Database *database_ = nullptr;
    RelayStore *store_ = nullptr; // null: there is no subscription
    Cluster *cluster_ = nullptr;
    unsigned types_ = 0;
    std::uint64_t called_stamp_ = 0;
    std::int64_t missed_ = 0;
    std::int64_t missed_before_ = 0; // it was detached
    bool detached_ = false;
    bool total_known_ = true; // nothing may arrive that its relay does not hear of
    std::size_t taken_ = 0;
    bool order_excused_ = false;
    Time patience_ = 30 * kSecond;
    Time stall_ = 2 * kSecond;
    bool in_turn_ = false;
    Time appended_at_ = 0;        // anything that was not there
    Time slowly_appended_at_ = 0; // the same, by a slow broker
    bool draining_ = false;       // the stream's producer
    Time drained_at_ = kNever;

    std::vector<Fact> facts_;
    std::set<int> pending_; // committed and taken, and not in Kafka
    std::uint64_t stamp_ = 0;
    std::map<std::pair<std::string, std::string>, std::vector<Appended>> keys_;
    std::map<Place, PlaceFacts> places_;
    std::vector<std::int32_t> partitions_;           // by key
    std::unordered_set<std::uint64_t> paused_lanes_; // in which something is not to be tried yet
    std::map<int, Replayed> replays_;                // by number
    std::map<int, std::uint64_t> routed_types_;      // with the stamp of the last change
    Time undisturbed_since_ = kBegin;
    Time ticked_at_ = 0;
    std::size_t rounds_then_ = 0;
    bool idle_then_ = false; // for as long
    Time longest_round_ = 0;
    PositionRow position_then_;
    bool position_known_ = false;
    std::size_t saves_ = 0;
    std::size_t saves_then_ = 0;
    Time saves_counted_at_ = 0;
    Time unsaved_since_ = 0;
    bool save_fails_ = false;
    bool tick_fails_ = false;  // or may do
    Time kept_since_ = kNever; // that there is something to be written, and a lock on it
    Time tick_written_at_ = kNever;
    std::int64_t waiting_ = 0;
    std::size_t acknowledged_ = 0;
    Time counted_at_ = 0;
    std::size_t published_ = 0;
    std::size_t refusals_ = 0;                             // of single records
    bool alone_ = false;                                   // the destination refuses these
    int smallest_limit_ = std::numeric_limits<int>::max(); // of a batch, in any topic so far
    bool topics_refuse_ = false;
    bool left_ = false; // it is not to be called, as this relay has heard
    std::size_t repeats_ = 0;
    std::string kind_;
    std::string failure_;
};

} // namespace outbox::sim
