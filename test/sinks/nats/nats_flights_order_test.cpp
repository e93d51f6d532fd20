// Flights to a server that stores, refuses, is silent and goes away by chance: whatever it does, a
// lane keeps its order and nothing is forgotten.
#include "flights_desk.h"

#include "test/support/seed.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>

namespace outbox::test
{

namespace
{

using nats::Parcel;
using nats::Reach;

// A server that stores, refuses, is silent and goes away as it likes.
class World
{
public:
    explicit World(unsigned seed) : random_(seed), desk_(rules()) {}

    void run()
    {
        for (int i = 0; i < 3000; i++)
            step();
        calm_ = true;
        for (int i = 0; i < 4000 && desk_.flights.size() > 0; i++)
            step();
        hear();
        EXPECT_EQ(desk_.flights.size(), 0U);
        EXPECT_EQ(ended_.size(), desk_.last);
    }

private:
    static nats::FlightRules rules()
    {
        nats::FlightRules rules;
        rules.timeout_ms = 300;
        rules.patience_ms = 200;
        rules.backoff_initial_ms = 20;
        rules.backoff_max_ms = 100;
        return rules;
    }
    bool one_in(unsigned n) { return !calm_ && random_() % n == 0; }

    void step()
    {
        now_ += random_() % 20;
        if (!calm_ && random_() % 2 == 0)
        {
            const std::uint64_t lane = random_() % 8;
            desk_.add(lane, lane % 2 == 0 ? "even" : "odd");
            queued_[lane].push_back(desk_.last);
            lanes_[desk_.last] = lane;
        }
        if (one_in(200))
            drop_connection();
        if (!desk_.flights.watch(now_, random_()))
            drop_connection();
        while (const Parcel *parcel = desk_.flights.next(now_))
            send(*parcel);
        answer();
        if (calm_ || random_() % 3 == 0)
            hear();
    }

    void send(const Parcel &parcel)
    {
        note_ended();
        // One that got no answer in time, or an answer that says to try again, goes out again.
        const auto under_way = lanes_under_way_.emplace(parcel.lane, parcel.tag).first;
        EXPECT_EQ(under_way->second, parcel.tag) << "two of a lane";
        EXPECT_EQ(closed_.count(parcel.lane), 0U) << "sent behind a refusal nobody has heard of";
        // Everything earlier of the lane was stored, or refused and heard of.
        const auto &queue = queued_[parcel.lane];
        EXPECT_EQ(queue.front(), parcel.tag) << "overtakes";
        wire_.push_back(parcel);
    }

    void drop_connection()
    {
        wire_.clear();
        desk_.flights.disconnected();
    }

    void answer()
    {
        while (!wire_.empty() && (calm_ || random_() % 2 == 0))
        {
            const Parcel parcel = wire_.front();
            wire_.pop_front();
            if (one_in(40))
                continue; // never; it counts as under way until the time is over
            desk_.flights.note_heard(now_);
            if (one_in(20))
                desk_.flights.refused(parcel.token, judgement(Reach::event), now_, random_());
            else if (one_in(20))
                desk_.flights.refused(parcel.token, judgement(Reach::subject), now_, random_());
            else if (one_in(40))
                desk_.flights.refused(parcel.token, judgement(Reach::destination), now_, random_());
            else
                desk_.flights.stored(parcel.token);
            note_ended();
        }
        note_ended();
    }

    // As they happen, not as they are told.
    void note_ended()
    {
        for (; noted_ < desk_.all.size(); noted_++)
        {
            const Ended &ended = desk_.all[noted_];
            const std::uint64_t lane = lanes_[ended.tag];
            if (ended.delivered)
            {
                EXPECT_EQ(queued_[lane].front(), ended.tag);
                queued_[lane].pop_front();
            }
            else if (!ended.consequence)
                closed_.insert(lane);
            lanes_under_way_.erase(lane);
        }
    }

    // The relay's thread: hears reports in order, and opens lanes.
    void hear()
    {
        note_ended();
        std::map<std::uint64_t, std::size_t> behind;
        for (const Ended &ended : desk_.all)
        {
            EXPECT_TRUE(ended_.insert(ended.tag).second) << "ended twice";
            const std::uint64_t lane = lanes_[ended.tag];
            auto &queue = queued_[lane];
            if (ended.delivered)
                continue;
            EXPECT_EQ(queue.front(), ended.tag) << "given up out of order";
            queue.pop_front();
            if (ended.consequence)
                behind[lane]++;
            else
                EXPECT_EQ(closed_.erase(lane), 1U);
        }
        desk_.all.clear();
        noted_ = 0;
        for (std::uint64_t lane = 0; lane < 8; lane++)
            EXPECT_EQ(desk_.flights.reopen(lane), behind[lane]);
    }

    std::mt19937 random_;
    Desk desk_;
    std::int64_t now_ = 0;
    bool calm_ = false;
    std::deque<Parcel> wire_;
    std::map<std::uint64_t, std::deque<std::uint64_t>> queued_;
    std::map<std::uint64_t, std::uint64_t> lanes_;
    std::map<std::uint64_t, std::uint64_t> lanes_under_way_;
    std::set<std::uint64_t> closed_;
    std::set<std::uint64_t> ended_;
    std::size_t noted_ = 0;
};

TEST(NatsFlights, WhateverTheServerDoesALaneKeepsItsOrderAndNothingIsForgotten)
{
    const unsigned seed = choose_seed();
    for (unsigned i = 0; i < 25 && !testing::Test::HasFailure(); i++)
    {
        SCOPED_TRACE("world " + std::to_string(i));
        World(seed + i).run();
    }
}

} // namespace

} // namespace outbox::test
