#include "bgworker/sinks/nats/flights.h"

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

using nats::Flights;
using nats::Judgement;
using nats::Parcel;
using nats::Reach;

struct Ended
{
    std::uint64_t tag;
    bool delivered;
    FailureClass cls;
    bool consequence;
};

// Keeps what ended; subjects live as long as it.
class Desk final : public nats::FlightEnd
{
public:
    explicit Desk(nats::FlightRules rules = {}) : flights(rules, *this) {}

    void ended(const Parcel &parcel, const Failure *failure) noexcept override
    {
        all.push_back({parcel.tag, failure == nullptr,
                       failure != nullptr ? failure->cls : FailureClass::none,
                       failure != nullptr && failure->consequence});
    }

    // Its tag is its number; the token too.
    std::uint64_t add(std::uint64_t lane, const std::string &subject = "a")
    {
        Parcel parcel;
        parcel.tag = ++last;
        parcel.token = (last << Flights::kPlaceBits) | (last % 60000);
        parcel.lane = lane;
        parcel.subject = *subjects.insert(subject).first;
        flights.add(parcel);
        return parcel.token;
    }
    std::vector<std::uint64_t> send(std::int64_t now)
    {
        std::vector<std::uint64_t> tags;
        while (const Parcel *parcel = flights.next(now))
            tags.push_back(parcel->tag);
        return tags;
    }
    std::string told()
    {
        std::string text;
        for (const Ended &ended : all)
            text += std::to_string(ended.tag) +
                    (ended.delivered     ? "+"
                     : ended.consequence ? "~"
                                         : std::string("-") + name_of(ended.cls)[0]) +
                    " ";
        all.clear();
        return text;
    }

    std::set<std::string> subjects;
    std::vector<Ended> all;
    std::uint64_t last = 0;
    Flights flights;
};

std::uint64_t
token_of(std::uint64_t tag)
{
    return (tag << Flights::kPlaceBits) | (tag % 60000);
}

Judgement
judgement(Reach reach)
{
    constexpr FailureClass kClasses[] = {FailureClass::none, FailureClass::event,
                                         FailureClass::topic, FailureClass::retriable};
    Judgement made;
    made.reach = reach;
    set_failure(made.failure, kClasses[static_cast<int>(reach)], "X", "x");
    return made;
}

using Tags = std::vector<std::uint64_t>;

TEST(NatsFlights, OneOfALaneIsUnderWayAndManyLanesAre)
{
    Desk desk;
    for (const std::uint64_t lane : {1, 1, 2, 3, 2})
        desk.add(lane);
    EXPECT_EQ(desk.send(0), (Tags{1, 3, 4}));
    desk.flights.stored(token_of(3));
    EXPECT_EQ(desk.send(0), Tags{5});
    EXPECT_EQ(desk.told(), "3+ ");
}

TEST(NatsFlights, ARefusalTakesWhatIsBehindItInItsLaneOnly)
{
    Desk desk;
    for (const std::uint64_t lane : {1, 1, 1, 2})
        desk.add(lane);
    (void) desk.send(0);
    desk.flights.refused(token_of(1), judgement(Reach::event), 0, 0);
    EXPECT_EQ(desk.told(), "1-e 2~ 3~ ");
    // Who adds has not heard of it yet.
    desk.add(1);
    EXPECT_EQ(desk.told(), "5~ ");
    EXPECT_EQ(desk.flights.reopen(1), 3U);
    desk.add(1);
    EXPECT_EQ(desk.send(0), Tags{6});
    desk.flights.stored(token_of(4));
    EXPECT_EQ(desk.told(), "4+ ");
}

TEST(NatsFlights, ASubjectThatRefusesKeepsNoOtherOneBack)
{
    nats::FlightRules rules;
    rules.patience_ms = 1000;
    Desk desk(rules);
    desk.add(1, "bad");
    desk.add(2, "bad");
    desk.add(3, "good");
    EXPECT_EQ(desk.send(0), (Tags{1, 2, 3}));
    desk.flights.refused(token_of(1), judgement(Reach::subject), 0, 0);
    desk.flights.refused(token_of(2), judgement(Reach::subject), 0, 0);
    desk.flights.stored(token_of(3));
    EXPECT_EQ(desk.told(), "3+ ");
    // One tries, and others of the subject wait.
    desk.add(4, "bad");
    desk.add(5, "good");
    EXPECT_EQ(desk.send(0), Tags{5});
    EXPECT_EQ(desk.send(200), Tags{1});
    EXPECT_EQ(desk.send(900), Tags{});
    // Patience is over.
    desk.flights.refused(token_of(1), judgement(Reach::subject), 1100, 0);
    EXPECT_EQ(desk.told(), "2-t 4-t 1-t ");
    // What comes then is not even sent.
    desk.add(6, "bad");
    desk.add(7, "good");
    EXPECT_EQ(desk.send(1101), Tags{7});
    EXPECT_EQ(desk.told(), "6-t ");
    // But for one now and then; and when that is stored the others flow.
    desk.add(8, "bad");
    EXPECT_EQ(desk.send(10000), Tags{8});
    desk.add(9, "bad");
    EXPECT_EQ(desk.send(10000), Tags{});
    desk.flights.stored(token_of(8));
    EXPECT_EQ(desk.send(10000), Tags{9});
}

TEST(NatsFlights, TroubleOfTheDestinationKeepsAllAndOneTries)
{
    Desk desk;
    for (const std::uint64_t lane : {1, 2, 3, 1})
        desk.add(lane);
    (void) desk.send(0);
    for (const std::uint64_t tag : {1, 2, 3})
        desk.flights.refused(token_of(tag), judgement(Reach::destination), 0, 0);
    EXPECT_EQ(desk.told(), "");
    EXPECT_TRUE(desk.flights.is_in_trouble());
    EXPECT_EQ(desk.send(100), Tags{});
    EXPECT_EQ(desk.flights.due(), desk.flights.retry_at());
    EXPECT_EQ(desk.send(500), Tags{1});
    desk.flights.refused(token_of(1), judgement(Reach::destination), 500, 0);
    EXPECT_EQ(desk.send(600), Tags{});
    EXPECT_EQ(desk.send(2000), Tags{2});
    desk.flights.stored(token_of(2));
    EXPECT_EQ(desk.send(2000), (Tags{3, 1}));
    EXPECT_FALSE(desk.flights.is_in_trouble());
}

TEST(NatsFlights, AConnectionThatEndsSendsAllAgain)
{
    Desk desk;
    for (const std::uint64_t lane : {1, 2, 1})
        desk.add(lane);
    (void) desk.send(0);
    desk.add(4);
    desk.flights.disconnected();
    EXPECT_EQ(desk.send(10), (Tags{1, 2, 4}));
    // An answer to the first sending counts.
    desk.flights.disconnected();
    desk.flights.stored(token_of(1));
    EXPECT_EQ(desk.send(10), (Tags{2, 4, 3}));
}

TEST(NatsFlights, SilenceIsTheConnectionsUnlessOthersAreAnswered)
{
    nats::FlightRules rules;
    rules.timeout_ms = 1000;
    rules.patience_ms = 0;
    Desk desk(rules);
    desk.add(1, "silent");
    desk.add(2, "good");
    (void) desk.send(0);
    EXPECT_TRUE(desk.flights.watch(999, 0));
    EXPECT_EQ(desk.flights.due(), 1000);
    EXPECT_FALSE(desk.flights.watch(1000, 0));
    desk.flights.note_heard(500);
    desk.flights.stored(token_of(2));
    EXPECT_TRUE(desk.flights.watch(1000, 0));
    EXPECT_EQ(desk.told(), "2+ 1-t ");
}

TEST(NatsFlights, WhoMayNotPublishIsToldOfHisSubjectOnly)
{
    nats::FlightRules rules;
    rules.patience_ms = 0;
    Desk desk(rules);
    desk.add(1, "a.long.subject");
    desk.add(2, "a.long");
    (void) desk.send(0);
    desk.flights.not_permitted("a.lo", false, 0, 0);
    EXPECT_EQ(desk.told(), "");
    desk.flights.not_permitted("a.long", false, 0, 0);
    EXPECT_EQ(desk.told(), "2-t ");
    desk.flights.not_permitted("a.long.sub", true, 0, 0);
    EXPECT_EQ(desk.told(), "1-t ");
}

TEST(NatsFlights, WhatEndsConnectionsIsFoundOneByOne)
{
    Desk desk;
    for (const std::uint64_t lane : {1, 2, 3})
        desk.add(lane);
    (void) desk.send(0);
    EXPECT_EQ(desk.flights.alone(), nullptr);
    desk.flights.isolate();
    desk.flights.disconnected();
    EXPECT_EQ(desk.send(0), Tags{1});
    desk.flights.stored(token_of(1));
    EXPECT_EQ(desk.send(0), Tags{2});
    ASSERT_NE(desk.flights.alone(), nullptr);
    desk.flights.refused(token_of(2), judgement(Reach::event), 0, 0);
    EXPECT_EQ(desk.send(0), Tags{3});
    desk.flights.stored(token_of(3));
    desk.add(4);
    desk.add(5);
    EXPECT_EQ(desk.send(0), (Tags{4, 5}));
}

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
