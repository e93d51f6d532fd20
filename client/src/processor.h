// What is done with the records that a consumer has in hand.
#pragma once

#include <chrono>
#include <deque>
#include <exception>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "database.h"
#include "dead_letters.h"
#include "group_member.h"
#include "log.h"
#include "outbox/consumer.h"
#include "outbox/error.h"
#include "postgres_store.h"
#include "stop_budget.h"

namespace outbox::v0::detail
{

// A handler has committed, or prepared, the transaction that it was given. The event is marked as
// processed, and nobody can say whether its effect was made.
class HandlerCommitted : public Error
{
public:
    HandlerCommitted();
};

// Takes records in the order of their partitions, and for the first of them goes through
//
//     effect ──────────────► done ──► (confirm)
//       │ max_attempts failures, or as many connections that it ended
//       └─► dead letter ──► (offset) ──► done
//
// A step that fails is done again after a pause; those that were done before are not. Only
// transactional stores have nothing to confirm, and only offsets in PostgreSQL are stored after a
// dead letter. Records of partitions that were given up are dropped, at whatever step they are; an
// effect that was made is confirmed nevertheless, before anything else is done.
class Processor
{
public:
    using Clock = std::chrono::steady_clock;

    // Everything is kept by reference and outlives the processor.
    Processor(const ConsumerOptions &options, const Handler &handler, Database *database,
              DedupStore &store, DeadLetters &dead_letters, const StopFlag &stop,
              StopBudget &budget, const Log &log);

    // The group that records come from from now on, of a new run().
    void join(GroupMember *group);

    // Whether there is nothing to do, so that records may be taken in hand.
    bool idle() const { return in_hand_.empty() && !unconfirmed_; }
    // Whether a step is due all the same.
    bool wants_step() const;
    void take(Held held) { in_hand_.push_back(std::move(held)); }
    // When the next attempt is due.
    Clock::time_point due() const { return due_; }

    // Forgets records of partitions that are no longer ours.
    void drop_what_was_given_up();
    // Takes one step with the first record, or with all in one transaction. Throws what ends
    // run(): DeadLetterError, DatabaseError of a database that is not set up, Stopped.
    void step();

    // When run() ends: tells the store of an effect that it does not know of yet, if it can be
    // told.
    void leave();

    // Where the partitions continue, by the database. Throws DatabaseError.
    Offsets stored_offsets();
    // After a failure that is not the record's: says so and pauses.
    void pause_after(const std::string &what, const std::string &why);

private:
    enum class Stage
    {
        effect,
        offset
    };

    // An effect that was made, and that the dedup store does not know of yet.
    struct Made
    {
        std::string event_id;
        std::string description;
    };

    PGconn *connection();
    bool begin();
    void prove_commits();
    bool read_offsets_again();
    void store_ends();
    Offsets ask_offsets();
    void leave_out(const Held &held);
    void step_idle();
    void step_batch();
    void step_first();
    void make_effect(const Held &held);
    void make_external_effect(const Held &held);
    void commit();
    void call_handler(const Held &held);
    void check_what_the_handler_left(bool thrown);
    [[noreturn]] void rethrow(const std::exception_ptr &thrown) const;
    void expect_not_prepared();
    void refuse_handlers_commit(const std::string &transaction);
    void lost_in_handler(const std::string &why, bool ours);
    void database_failed(const DatabaseError &error);
    void store_failed(const std::string &why);
    bool store_offset(const TopicPartition &place, std::int64_t next_offset,
                      Database::AtStop at_stop = Database::AtStop::give_up);
    void confirm();
    void store_offset_alone();
    void failed(const std::string &why);
    void write_dead_letter(const std::string &why, int attempts);
    void finish_first();
    void reset_first();
    void remember_tries(const Held &held);
    void take_up_tries();
    void pause(int failures);
    void wait_for_others(const Held &held);
    bool claim_batch_and_handle();
    bool claim_batch(const std::vector<std::string> &ids, std::unordered_set<std::string> *first);
    bool handle_batch(std::unordered_set<std::string> first);
    bool one_by_one(const std::string &why);
    std::string first() const;
    void end_if_misconfigured(const DatabaseError &error) const;

    // What became of a record that was left in the middle of it, as its partition was lost.
    struct Tries
    {
        std::int64_t offset;
        std::string event_id; // of a topic that is made anew, another event has this offset
        int attempts;
        int losses;
        std::string why;
    };

    const ConsumerOptions &options_;
    const Handler &handler_;
    Database *database_; // none for stores that are not transactional
    DedupStore &store_;
    DeadLetters &dead_letters_;
    const StopFlag &stop_;
    StopBudget &budget_;
    const Log &log_;
    GroupMember *group_ = nullptr;

    std::deque<Held> in_hand_;
    std::map<TopicPartition, Tries> left_; // where partitions were lost; one for each at most
    Stage stage_ = Stage::effect;          // of the first record
    int attempts_ = 0;                     // of the first record, failed
    int losses_ = 0;          // of a connection, in the first record's handler or commit
    std::string why_;         // it failed the last time
    int pauses_ = 0;          // in a row that were nobody's fault
    std::size_t singles_ = 0; // records to be done one by one after a batch failed
    bool in_handler_ = false;
    std::optional<Made> unconfirmed_;
    // Handlers have used savepoints, so that in a batch each has one of ours around it. Without
    // them it would cost a number for each record, and 64 in a transaction slow down its server.
    bool savepoints_ = false;
    // The session whose stored offsets are those that we go by.
    std::uint64_t checked_session_ = 0;
    Clock::time_point ends_due_ = Clock::now(); // the next time that they are stored
    // The transaction that the first record's handler had in its last attempt, and the one of the
    // batch that is done again one by one, if handlers may have committed them: then not by us.
    std::string attempted_;
    std::string attempted_batch_;
    Clock::time_point due_ = Clock::now();
    std::mt19937_64 random_;
};

} // namespace outbox::v0::detail
