// What the demo tells, and the promises that it checks on the way.
#pragma once

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include "screen.h"
#include "support/consumer.h"
#include "support/pg.h"

namespace outbox::demo
{

// A promise of outbox that did not hold.
class BrokenPromise : public std::runtime_error
{
public:
    using std::runtime_error::runtime_error;
};

class Story
{
public:
    // `topic` is where the events of orders go; the consumer reads it.
    Story(const Screen &screen, test::Db &db, test::Consumer &consumer, std::string topic);
    virtual ~Story() = default;
    Story(const Story &) = delete;
    Story &operator=(const Story &) = delete;

    // Tells the whole story; throws BrokenPromise, SqlError or Interrupted.
    virtual void tell();

    // Shows what arrives from now on, such as events that the reader emits, until there is an
    // interrupt.
    void show_what_arrives();

protected:
    using TimePoint = std::chrono::system_clock::time_point;

    // Runs one statement and shows it.
    void run(const std::string &sql);

    // The same for one that returns the id of an event, which is shown as well.
    std::string emit(const std::string &sql);

    // Runs and shows a statement outside of a transaction; it returns the ids of the events it
    // makes.
    std::vector<std::string> emit_and_commit(const std::string &sql);

    void commit();

    // Waits for the events with these ids and returns their records, in the order of arrival; those
    // of one partition are in its order.
    std::vector<test::Record> receive(const std::vector<std::string> &ids);
    std::string after_commit(const test::Record &record) const;

    // Each committed event was received once, and no other one.
    void check_what_arrived();

    const Screen &screen_;
    test::Db &db_;
    test::Consumer &consumer_;
    std::string topic_;
    TimePoint committed_;               // when the last commit was sent
    std::vector<std::string> expected_; // ids of all events whose arrival was waited for

private:
    void commit_an_order();
    void roll_back_an_order();
    void emit_a_batch();
    void follow_one_order();
    void ask_the_database();

    std::string rolled_back_;
};

} // namespace outbox::demo
