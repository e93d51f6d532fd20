// What needs no server.
#include "bgworker/sinks/amqp/lanes.h"
#include "bgworker/sinks/amqp/options.h"
#include "bgworker/sinks/amqp/shares.h"
#include "bgworker/sinks/amqp/suspects.h"
#include "bgworker/sinks/amqp/unconfirmed.h"
#include "bgworker/sinks/amqp/uri.h"

#include "support/seed.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace outbox::test
{

namespace
{

using amqp::Message;
using amqp::MessageList;

EventTemplate
its_topic()
{
    EventTemplate made;
    (void) amqp::compile_routing_key("{topic}", made);
    return made;
}

std::unique_ptr<Message>
message(std::uint64_t tag, const std::string &key = "key", const std::string &topic = "a")
{
    const std::string id = std::to_string(tag);
    const Header header = {"id", id};
    Record record;
    record.topic = topic;
    record.key = key;
    record.headers = &header;
    record.header_count = 1;
    record.tag = tag;
    Failure why;
    return Message::make(record, its_topic(), why);
}

std::vector<std::uint64_t>
tags_of(MessageList list)
{
    std::vector<std::uint64_t> tags;
    while (const std::unique_ptr<Message> next = list.pop())
        tags.push_back(next->tag);
    return tags;
}

// Beside a model that is a map.
TEST(AmqpUnconfirmed, EachNumberIsConfirmedOnceByAnyMix)
{
    const unsigned seed = choose_seed();
    std::mt19937 random(seed);
    const auto pick = [&](std::uint64_t below) { return random() % below; };
    for (int round = 0; round < 300; round++)
    {
        amqp::Unconfirmed unconfirmed;
        std::map<std::uint64_t, std::uint64_t> expected; // number to tag
        std::set<std::uint64_t> returned;
        std::uint64_t sent = 0;
        for (int step = 0; step < 200; step++)
        {
            if (pick(3) != 0)
            {
                std::unique_ptr<Message> fresh = message(++sent);
                unconfirmed.add(fresh);
                expected[sent] = sent;
                continue;
            }
            if (pick(3) == 0 && sent > 0)
            {
                const std::uint64_t back = 1 + pick(sent);
                const bool known = expected.count(back) == 1 && returned.count(back) == 0;
                EXPECT_EQ(
                    unconfirmed.give_back(std::to_string(back), "a", std::make_unique<Failure>()),
                    known);
                if (known)
                    returned.insert(back);
                continue;
            }
            const std::uint64_t number = pick(sent + 3);
            const bool multiple = pick(2) == 0;
            MessageList confirmed;
            const bool possible = number <= sent && (number > 0 || multiple);
            ASSERT_EQ(unconfirmed.confirm(number, multiple, confirmed), possible) << number;
            std::set<std::uint64_t> wanted;
            if (possible)
                for (const auto &item : expected)
                    if (item.first == number || (multiple && (number == 0 || item.first < number)))
                        wanted.insert(item.first);
            for (const std::uint64_t gone : wanted)
                expected.erase(gone);
            std::set<std::uint64_t> got;
            while (const std::unique_ptr<Message> next = confirmed.pop())
            {
                got.insert(next->tag);
                EXPECT_EQ(next->outcome == amqp::Outcome::failed, returned.count(next->tag) == 1);
            }
            ASSERT_EQ(got, wanted);
            ASSERT_EQ(unconfirmed.size(), expected.size());
        }
        std::vector<std::uint64_t> left;
        for (const auto &item : expected)
            left.push_back(item.second);
        EXPECT_EQ(tags_of(unconfirmed.take_all()), left);
        EXPECT_TRUE(unconfirmed.empty());
    }
}

TEST(AmqpLanes, OneMessageOfALaneIsUnderWay)
{
    amqp::Lanes lanes;
    std::unique_ptr<Message> first = lanes.add(message(1, "a"));
    ASSERT_TRUE(first);
    EXPECT_FALSE(lanes.add(message(2, "a")));
    EXPECT_FALSE(lanes.add(message(3, "a")));
    EXPECT_TRUE(lanes.add(message(4, "b")));
    std::unique_ptr<Message> second = lanes.next_after(*first);
    ASSERT_TRUE(second);
    first.reset(); // the lane's name was in it
    EXPECT_EQ(second->tag, 2u);
    EXPECT_FALSE(lanes.add(message(5, "a")));
    EXPECT_EQ(tags_of(lanes.take_behind(*second)), (std::vector<std::uint64_t>{3, 5}));
    EXPECT_TRUE(lanes.add(message(6, "a")));
}

TEST(AmqpLanes, TopicAndKeyAreKeptApart)
{
    amqp::Lanes lanes;
    const auto add = [&](const std::string &topic, const std::string &key)
    {
        Record record;
        record.topic = topic;
        record.key = key;
        Failure why;
        return lanes.add(Message::make(record, its_topic(), why)) != nullptr;
    };
    EXPECT_TRUE(add("ab", "c"));
    EXPECT_TRUE(add("a", "bc"));
    EXPECT_FALSE(add("ab", "c"));
}

// An aggregate's events are one line, whatever their routing keys.
TEST(AmqpMessage, RoutingKeyComesFromTheTemplateAndDividesNoLine)
{
    EventTemplate routing_key;
    ASSERT_TRUE(
        amqp::compile_routing_key("{aggregate_type}.{event_type}/{key} {topic}", routing_key).ok);
    const auto made = [&](const std::string &type, Failure &why)
    {
        const Header headers[] = {{"id", "1"},
                                  {"event_type", type},
                                  {"aggregate_type", "order"},
                                  {"ce_type", "caller's"}};
        Record record;
        record.topic = "t";
        record.key = "k";
        record.headers = headers;
        record.header_count = 4;
        return Message::make(record, routing_key, why);
    };
    Failure why;
    const std::unique_ptr<Message> created = made("created", why);
    const std::unique_ptr<Message> paid = made("p\xc3\xa4id now", why);
    ASSERT_TRUE(created && paid) << why.text;
    EXPECT_EQ(created->routing_key(), "order.created/k t");
    EXPECT_EQ(paid->routing_key(), "order.p\xc3\xa4id now/k t");
    EXPECT_EQ(created->lane(), paid->lane());
    EXPECT_EQ(created->key(), "k");
    EXPECT_EQ(created->id(), "1");
    EXPECT_EQ(created->type(), "created");
    EXPECT_TRUE(made(std::string(255 - std::string("order./k t").size(), 'x'), why));
    EXPECT_FALSE(made(std::string(256 - std::string("order./k t").size(), 'x'), why));
    EXPECT_STREQ(why.name, "ROUTING_KEY_TOO_LONG");
    EXPECT_EQ(why.cls, FailureClass::event);
}

// A server that takes so many messages that it does not confirm, of all together, and then reads no
// more. Some queues hang from some moment on, and hold what was sent to them; all others confirm at
// their pace. What is for these arrives, whatever is for the others; when nothing hangs any more,
// all does, once.
TEST(AmqpShares, QueuesThatHangLeaveTheOthersTheirShare)
{
    using amqp::Shares;
    const unsigned seed = choose_seed();
    std::mt19937 random(seed);
    const auto pick = [&](std::size_t below) { return random() % below; };
    for (int round = 0; round < 30; round++)
    {
        const std::size_t queues = 2 + pick(10);
        const std::size_t hung = pick(std::min<std::size_t>(queues, 5));
        const std::size_t credit = hung + 1 + pick(400);
        const std::size_t hang_after = pick(2000);
        Shares shares;
        MessageList ready;
        std::vector<std::vector<std::unique_ptr<Message>>> sent(queues);
        std::vector<std::uint64_t> arrived(queues);
        std::vector<std::uint64_t> produced(queues);
        Shares::Steady::time_point now = Shares::Steady::now();
        Shares::Steady::time_point progress = now;
        std::uint64_t tag = 0;
        bool hangs = false;
        bool over = false;
        const auto hangs_now = [&](std::size_t queue) { return hangs && !over && queue < hung; };
        const auto held = [&]
        {
            std::size_t count = 0;
            for (std::size_t i = 0; i < queues; i++)
                count += hangs_now(i) ? sent[i].size() : 0;
            return count;
        };
        const auto confirm = [&](std::size_t queue)
        {
            const std::size_t at = pick(sent[queue].size());
            std::unique_ptr<Message> message = std::move(sent[queue][at]);
            sent[queue].erase(sent[queue].begin() + static_cast<std::ptrdiff_t>(at));
            shares.answered(*message, now, ready);
            progress = now;
            arrived[queue]++;
        };
        const auto turn = [&](bool produces)
        {
            now += std::chrono::milliseconds(10);
            for (std::size_t i = 0; produces && i < queues; i++)
                for (std::size_t count = pick(5); count > 0; count--, produced[i]++)
                    ready.push(message(++tag, std::to_string(i), "q" + std::to_string(i)));
            while (held() < credit && !ready.empty())
            {
                std::unique_ptr<Message> next = ready.pop();
                if (!shares.admit(next, now))
                    continue;
                const std::size_t queue = std::stoul(std::string(next->key()));
                shares.sent(*next, now);
                sent[queue].push_back(std::move(next));
            }
            for (std::size_t i = 0; held() < credit && i < queues; i++)
                for (std::size_t count = pick(20); count > 0 && !hangs_now(i); count--)
                    if (!sent[i].empty())
                        confirm(i);
            if (shares.stops_channel(progress, now, !ready.empty()))
            {
                MessageList again;
                for (auto &of_queue : sent)
                {
                    for (auto &one : of_queue)
                    {
                        one->share = nullptr;
                        again.push(std::move(one));
                    }
                    of_queue.clear();
                }
                again.append(shares.reset());
                again.append(std::move(ready));
                ready.append(std::move(again));
                progress = now;
            }
        };
        for (int i = 0; i < 600; i++)
        {
            hangs = hangs || tag >= hang_after;
            turn(true);
        }
        for (int i = 0; i < 6000; i++)
            turn(false);
        for (std::size_t i = hung; i < queues; i++)
            ASSERT_EQ(arrived[i], produced[i]) << "seed " << seed << ", round " << round;
        over = true;
        for (int i = 0; i < 1000; i++)
            turn(false);
        for (std::size_t i = 0; i < hung; i++)
            ASSERT_EQ(arrived[i], produced[i]) << "seed " << seed << ", round " << round;
        EXPECT_TRUE(ready.empty());
        EXPECT_TRUE(shares.reset().empty());
    }
}

// However many others there are, and wherever it is.
TEST(AmqpSuspects, CulpritIsFoundInLogarithmicTime)
{
    for (const std::uint64_t culprit : {1u, 2u, 500u, 999u, 1000u})
    {
        amqp::Suspects suspects;
        MessageList all;
        for (std::uint64_t tag = 1; tag <= 1000; tag++)
            all.push(message(tag));
        suspects.add(std::move(all));
        std::set<std::uint64_t> confirmed;
        int rounds = 0;
        for (bool found = false; suspects.any() && rounds < 60; rounds++)
        {
            MessageList group;
            while (suspects.may_send(group.size()))
                group.push(suspects.next());
            bool bad = false;
            MessageList sent;
            std::size_t size = group.size();
            while (std::unique_ptr<Message> next = group.pop())
            {
                bad = bad || next->tag == culprit;
                if (bad)
                    sent.push(std::move(next));
                else
                    confirmed.insert(next->tag); // before the channel was closed
            }
            if (bad && size > 1)
                suspects.add(std::move(sent));
            found = found || (bad && size == 1);
        }
        EXPECT_LT(rounds, 60);
        EXPECT_EQ(confirmed.size(), 999u);
        EXPECT_EQ(confirmed.count(culprit), 0u);
    }
}

TEST(AmqpUri, PartsAreRead)
{
    amqp::Uri uri;
    ASSERT_EQ(amqp::read_uri("amqps://us%40er:pa%2Fss%3A@rabbit-1.example:5671/v%2fhost", uri),
              nullptr);
    EXPECT_TRUE(uri.tls);
    EXPECT_EQ(uri.username, "us@er");
    EXPECT_EQ(uri.password, "pa/ss:");
    EXPECT_EQ(uri.host, "rabbit-1.example");
    EXPECT_EQ(uri.port, 5671);
    EXPECT_EQ(uri.vhost, "v/host");
    ASSERT_EQ(amqp::read_uri("amqp://[::1]", uri), nullptr);
    EXPECT_EQ(uri.host, "::1");
    EXPECT_EQ(uri.port, 0);
    EXPECT_EQ(uri.vhost, "/");
    EXPECT_EQ(uri.username, "guest");
    ASSERT_EQ(amqp::read_uri("amqp://user@host/", uri), nullptr);
    EXPECT_EQ(uri.vhost, "");
    EXPECT_EQ(uri.password, "");
    EXPECT_FALSE(uri.tls);
}

TEST(AmqpUri, WhatIsNoneIsRefused)
{
    amqp::Uri uri;
    for (const char *text :
         {"", "http://host", "amqp:/host", "amqp://", "amqp://user:secret@",
          "amqp://host:", "amqp://host:0", "amqp://host:65536", "amqp://host:5a", "amqp://h/%4",
          "amqp://h/%zz", "amqp://h/%00", "amqp://h/a/b", "amqp://h?heartbeat=1", "amqp://[::1",
          "amqp://[::1]x", "amqp://us%4:p@h"})
    {
        const char *why = amqp::read_uri(text, uri);
        ASSERT_NE(why, nullptr) << text;
        EXPECT_EQ(std::string(why).find("secret"), std::string::npos);
    }
}

} // namespace

} // namespace outbox::test
