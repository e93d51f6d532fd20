#include "bgworker/engine/common/topic_table.h"

#include <gtest/gtest.h>

#include <string>

namespace outbox::test
{

namespace
{

std::string
topic(int number)
{
    return "outbox.event.type" + std::to_string(number);
}

TEST(TopicTable, ANameKeepsItsNumber)
{
    TopicTable table;
    for (int round = 0; round < 3; ++round)
        for (int i = 0; i < TopicTable::kTopics; ++i)
        {
            EXPECT_EQ(table.find(topic(i)), i);
            EXPECT_EQ(table.name(static_cast<std::uint16_t>(i)), topic(i));
        }
}

TEST(TopicTable, WhatDoesNotFitShares)
{
    TopicTable table;
    for (int i = 0; i < 1000; ++i)
        EXPECT_EQ(table.find(topic(i)), i < TopicTable::kTopics ? i : TopicTable::kOther);
    EXPECT_EQ(table.find(topic(5)), 5);
    EXPECT_EQ(table.find(topic(700)), TopicTable::kOther);
}

TEST(TopicTable, NamesWithTheSameEndAreToldApart)
{
    TopicTable table;
    const std::uint16_t one = table.find("eu.shop.orders.created");
    EXPECT_NE(table.find("us.shop.orders.created"), one);
    EXPECT_NE(table.find("created"), one);
    EXPECT_EQ(table.find("eu.shop.orders.created"), one);
}

TEST(TopicTable, TakesNamesOfAnyLength)
{
    TopicTable table;
    const std::string longest(TopicTable::kLongest, 'x');
    EXPECT_EQ(table.find(longest), 0);
    EXPECT_EQ(table.find("x"), 1);
    EXPECT_EQ(table.find(longest + "x"), TopicTable::kOther);
    EXPECT_EQ(table.find(""), TopicTable::kOther);
    EXPECT_EQ(table.name(0), longest);
}

TEST(TopicTable, GoesOnWithTheNumbersOfBefore)
{
    TopicTable table;
    table.set(2, "c");
    table.set(0, "a");
    EXPECT_EQ(table.find("c"), 2);
    EXPECT_EQ(table.find("b"), 1);
    EXPECT_EQ(table.find("d"), 3);
    table.clear();
    EXPECT_EQ(table.find("c"), 0);
}

} // namespace

} // namespace outbox::test
