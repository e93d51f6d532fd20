// Faults that the tests of the simulation switch on, one at a time, to see that it sees them.
// Nothing of this is in the product: without OUTBOX_MUTANTS each is the constant false.
#pragma once

#ifdef OUTBOX_MUTANTS

#include <cstdint>

namespace outbox
{

enum class Mutant : unsigned char
{
    none,
    reads_by_number,        // as "id > last" does
    window_begins_late,     // by one transaction
    window_ends_early,      // the same
    forgets_running,        // those that were when the window before ended
    position_before_ack,    // events in flight count as acknowledged
    passes_held,            // a later event goes to a topic that the earlier waits for
    missing_topic_stalls,   // nothing goes while one refuses
    rewind_skips,           // the first event in flight when a producer has died
    takes_refused_for_sent, // what a broker has refused counts as published
    sets_aside_nowhere,     // what has to wait is not written down
    blocks_nothing,         // a refused event lets later ones of its key pass
    clears_lane_early,      // while the last of it is on its way
    opens_closing_lane,     // the same, for new events
    forgets_afloat,         // what the stream's producer still has is sent again
    lacks_barrier,          // of a lane that the stream did not make known
    ignores_barrier,        // the line goes out before what the stream had sent is acknowledged
    tries_due_first,        // and not what belongs before it in its line
    removes_when_sent,      // the row of an event, not when it has arrived
    refuses_out_of_turn,    // an event while earlier ones of its line are on their way
    forgets_due,            // what was left out because its lane was on its way
    leaves_lane_blocked,    // that its head has left
    refuses_out_of_place,   // an event that cannot be built, before earlier ones of its key
    spins_when_locked,      // because there would be something to do
    publishes_unflushed,    // commits that are not on disk (in the simulated source)
    tries_behind_failed,    // and behind others that block the lane (in the simulated table)
    tries_by_time_of_day,   // again what could not be handed over
    forgets_last_results,   // of redelivery, when the relay ends
    paces_by_time_of_day,   // all that waits (in the simulated clock)
    leaves_late_attempts,   // when the clock was set back (in the simulated maintenance)
    keeps_old_lanes,        // of rows that were written by another key
    forgets_new_lanes,      // that such rows have got, until all have been looked at
    counts_apart,           // what was published, in another transaction than its row goes
    exceeds_bytes,          // that may be in flight, by the last event
    forgets_last_seq,       // of the position, at a start, so that the next one goes back
    saves_rarely,           // the position, as if writing it took a thousand times as long
    saves_not_at_end,       // what was acknowledged since it was written last
    ticks_ahead,            // that all of the window is published, when it has begun
    publishes_unsaved,      // ever more, while the position is locked
    passes_held_paused,     // what is held in memory goes out while the relay is paused
    replays_paused,         // goes on with a replay, the same
    shows_less_waiting,     // as backlog, without what is in flight
    forgets_last_replayed,  // how far a replay was when the relay ends
    count,
    // These need a history of their own, that was made or found for them.
    reads_past_held,           // while what is held goes out
    counts_before_end,         // what is set aside, when its step may still be rolled back
    topic_waits_for_partition, // which does not acknowledge
    head_waits_for_partition,  // of its line, for what another line has on its way there
    parts_at_once,             // the same, however many of its events are on their way
    releases_at_once,          // a group of a line, however many of it move to other lines
    redelivers_at_once,        // after a start, before the stream has read what comes first
    forgets_held,              // by a person, when its event was published
    refuses_to_wider,          // what waits for its topic in a narrower line, past those behind it
    places_by_width,           // what comes back from the stream, whatever came before it
    passes_wider,           // a line goes out while its partition or topic is blocked (costs work)
    forgets_rows,           // that the process before has written
    full_is_never_stuck,    // a partition that does not answer holds up all others
    waiting_is_never_stuck, // the same, those that were set aside
    passes_refused,         // what was refused and is not set aside yet
    draws_past_failed,      // the same, of one that blocks nothing
    takes_place_again,      // in its line, an event that others did not wait for
    blocks_for_held,        // a lane, when the row was not written as a person held it
    waits_for_removal,      // of the row of a published event that a person holds
    tries_held_at_once,     // what was refused and is held by a person
    forgets_left,           // rows that a person held while routes changed
    leaves_others,          // of a key that gets a line by a change of routes
    places_without_partition,   // what is refused with its topic, before others of its partition
    forgets_unplaced,           // the same, before others whose key has a line
    parts_anew,                 // a line from a wider one, as if all of the stream were before it
    forgets_partition,          // that an event was queued for, when its producer has died
    looks_with_news,            // only, at what is held for a topic
    forgets_rows_behind,        // an event that is read again and has none itself
    stuck_one_by_one,           // a second for each partition
    begins_slices_again,        // of what is stuck, at the first event in flight
    refusals_at_once,           // however many, in one step
    trouble_waits_for_delivery, // of the stream, when the connection is back
    afloat_has_no_size,         // what is never acknowledged fills the producer's queue
    sinks_unqueued,             // what is to be handed over again counts as afloat
    counts_while_held,          // as time that an event was not acknowledged
    keeps_what_holds_up,        // the producer, when what is afloat keeps it from sending the rest
    waits_anew,                 // for what a new sink has, though it has waited before
    parts_late,                 // a partition from its topic's line, after a second
    waits_after_late_routes,    // though routes have waited for what was on its way
    waits_twice,                // for a broker that has not answered until a producer's end
    waits_after_routes,         // the same, when they are loaded just then
    tells_again,                // that a topic is refused, in the log
    waits_for_topic_too,        // as long as if others had not waited before
    asks_anew,                  // whether a topic is there, with each producer
    tries_at_once,              // again, whatever its attempts
    tries_each_round,           // what cannot be written, as long as the disk is full
    takes_stuck_for_turn,       // what a sink has begun to send, and is not answered
    takes_turn_for_stuck,       // of what a sink has not begun to send
    tries_culprits_along,       // with others, which come back without having been sent
    forgets_partitions_of_rows, // when an event of their key is read again and its topic is gone
    takes_row_for_answer,       // of a partition, when an event of it was set aside
    hands_over_past_rows,       // that routes have brought behind what was read, during a start
    blames_the_last,            // of what was refused, behind another refused batch of its line
    reads_past_left,            // rows that a person held while routes changed during a start
    leaves_topics_others,       // of a key that has rows in the line of its partition, at a start
    tries_left,                 // rows that a person held while routes changed, where they were
    loads_with_results,         // new routes, in the step that notes what was refused by the old
    waits_for_rows,             // all that is new, until all rows were looked at when routes change
    passes_rows,                // of its key that were not looked at, when routes change
    passes_many_rows,           // the same, of a key that has many
    leaves_many,                // rows of such a key, in wider lines than the event that joins it
    joins_wider_lines,          // than that of its key, when routes change
    looks_without_limit,        // at rows of keys of which something is new, one after the other
    releases_ungathered,        // lines of such keys, of which rows are in wider ones
    gathers_under_way,          // rows that are on their way, or refused, in a wider line
    loses_followers,            // what was given back with a refused record, unsent
    takes_followers_for_sent,   // the same, so that they are never handed over again
    halts_for_refusal,          // all that is new, when a record was refused alone
    blames_followers,           // as if they had been refused, when they were tried again
    refuses_twice,              // counts a record that was refused alone twice
    blames_for_gone,            // an event, that its destination asks never to be called again
    calls_again,                // a destination that asks for that
    calls_for_rows,             // that the redelivery has heard so
    replays_to_gone,            // the same, of a replay
    reloads_for_some,           // all lines, when some of what persons held has followed
    // Of subscriptions beside each other; in the simulated database but for the last.
    empties_for_the_first, // partitions that others have not passed
    filters_by_now,        // what was committed before the filter was changed, too
    begins_with_another,   // at the position of another subscription
    begins_behind_open,    // transactions, when it is created
    alters_while_it_runs,  // the relay, which does not know the new filter
    miscounts_missed,      // what was sent of the window that was under way
    counts_by_last_types,  // what is missed, and not by those of its commit
    counts_set_aside_too,  // as missed, what is there to be sent again
    serves_detached,       // the relay goes on
    pauses_with_default,   // because that is paused
    clears_others,         // rows of deliveries, when one is dropped
    reads_other_position,  // when its relay starts anew
    empties_under_replays, // that have not ended
    replays_less,          // what was on its way when the sink had ended
    blames_last_of_replay, // of several that were refused together
    replays_past_returned, // what was given back behind a refused record, until all have come
    writes_left_out_again, // the position, for what was not taken before
    forgets_left_out       // that a position is to be written when all behind it is not taken
};

inline Mutant mutant = Mutant::none;
inline std::int64_t mutant_last = 0; // of reads_by_number

inline void
set_mutant(Mutant to) noexcept
{
    mutant = to;
    mutant_last = 0;
}

} // namespace outbox

#define OUTBOX_MUTANT(name) (::outbox::mutant == ::outbox::Mutant::name)
#else
#define OUTBOX_MUTANT(name) false
#endif
