// What needs no server.
#include "bgworker/sinks/amqp/lanes.h"
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

std::unique_ptr<Message>
message(std::uint64_t tag, const std::string &key = "key")
{
    const std::string id = std::to_string(tag);
    const Header header = {"id", id};
    Record record;
    record.topic = "a";
    record.key = key;
    record.headers = &header;
    record.header_count = 1;
    record.tag = tag;
    Failure why;
    return Message::make(record, why);
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
        return lanes.add(Message::make(record, why)) != nullptr;
    };
    EXPECT_TRUE(add("ab", "c"));
    EXPECT_TRUE(add("a", "bc"));
    EXPECT_FALSE(add("ab", "c"));
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
