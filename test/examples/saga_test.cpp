// The services of examples/saga, while everything is killed at random.
#include <csignal>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <random>

#include <gtest/gtest.h>

#include "saga.h"
#include "support/seed.h"

using namespace outbox::test;

namespace
{

std::chrono::seconds
duration()
{
    const char *minutes = std::getenv("OUTBOX_SAGA_MINUTES");
    return std::chrono::seconds(
        static_cast<int>(60 * std::atof(minutes != nullptr ? minutes : "1")));
}

void
kill_relay(Saga &saga, const std::string &database)
{
    const std::optional<std::string> pid =
        Db(saga.postgres(), database).exec("select pid from outbox.relay_status").field(0);
    if (pid)
        kill(std::stoi(*pid), SIGKILL); // it may be gone already
}

// What can happen, and how often in a hundred times.
struct Accident
{
    int share;
    const char *name;
    std::function<void(Saga &, std::mt19937 &)> happen;
};

const std::vector<Accident> &
accidents()
{
    static const std::vector<Accident> all = {
        {50, "a service killed",
         [](Saga &saga, std::mt19937 &random) { saga.service(random() % 4).kill_and_restart(); }},
        {10, "a service away for longer than orders wait",
         [](Saga &saga, std::mt19937 &random)
         { saga.service(1 + random() % 2).kill_for(kOrderTimeout + std::chrono::seconds(2)); }},
        {12, "a relay killed",
         [](Saga &saga, std::mt19937 &random) { kill_relay(saga, kDatabases[random() % 4]); }},
        {8, "PostgreSQL killed",
         [](Saga &saga, std::mt19937 &)
         {
             saga.postgres().kill9();
             saga.postgres().start();
         }},
        {7, "PostgreSQL restarted", [](Saga &saga, std::mt19937 &) { saga.postgres().restart(); }},
        {8, "Kafka killed",
         [](Saga &saga, std::mt19937 &)
         {
             saga.kafka().kill9();
             saga.kafka().start();
         }},
        {5, "Kafka restarted",
         [](Saga &saga, std::mt19937 &)
         {
             saga.kafka().stop();
             saga.kafka().start();
         }}};
    return all;
}

const Accident &
choose(std::mt19937 &random)
{
    int left = static_cast<int>(random() % 100);
    for (const Accident &accident : accidents())
        if ((left -= accident.share) < 0)
            return accident;
    return accidents()[0];
}

// A server that is just coming back from the last accident may miss the next one.
void
strike(Saga &saga, const Accident &accident, std::mt19937 &random,
       std::map<std::string, int> &happened)
{
    try
    {
        accident.happen(saga, random);
        ++happened[accident.name];
    }
    catch (const SqlError &error)
    {
        ++happened["an accident that found no server"];
    }
}

} // namespace

TEST(Saga, MoneyAndGoodsAddUpThoughEverythingIsKilledAtRandom)
{
    Saga saga(Saga::Customers::kOrdering);
    std::mt19937 random(choose_seed());
    std::map<std::string, int> happened;
    const auto end = Clock::now() + duration();
    ASSERT_TRUE(saga.ships_on()) << "no order is shipped though nothing has happened";
    // Whatever chance brings, some orders are to run out of time, and each kind of server is to be
    // away once.
    for (const size_t first : {1, 2, 3, 5})
    {
        strike(saga, accidents()[first], random, happened);
        EXPECT_TRUE(saga.ships_on()) << "no order is shipped any more";
    }
    // Half of the accidents come when everything works again, the others upon one another.
    while (Clock::now() < end)
    {
        strike(saga, choose(random), random, happened);
        if (random() % 2 == 0)
            EXPECT_TRUE(saga.ships_on()) << "no order is shipped any more";
        else
            saga.supervise_for(Milliseconds(500 + random() % 4000));
    }
    EXPECT_TRUE(saga.all_ways_taken()) << "there is a way in which no order has ended";
    EXPECT_TRUE(saga.customers_end()) << "customers still have no answer";
    const Finished report = saga.settle();
    std::cout << report.output;
    for (const auto &[name, times] : happened)
        std::cout << name << ": " << times << " times\n";
    EXPECT_TRUE(report.ok()) << "it does not add up";
    saga.end_services();
    EXPECT_TRUE(saga.report().ok()) << "it did not stay so";
    for (const std::string &line : saga.postgres().new_crashes())
        ADD_FAILURE() << "server crash: " << line;
    saga.postgres().stop();
    saga.kafka().stop();
}

TEST(Saga, WhatIsUndoneIsWhatWasDoneAndOnce)
{
    Saga saga(Saga::Customers::kNone);
    Db orders = saga.connect("orders");
    Db payment = saga.connect("payment");
    Db stock = saga.connect("stock");
    // Events may be emitted once more, by a person say, and an order may have changed since.
    const auto emit = [&](const std::string &type, int id, int quantity, int cents)
    {
        orders.exec("select outbox.emit('order', $1, $2, jsonb_build_object('id', ($1::text)::int,"
                    " 'customer', 'c1', 'item', 'apple', 'quantity', $3::int, 'cents', $4::int))",
                    id, type, quantity, cents);
    };
    emit("order.placed", 1, 2, 500);
    emit("order.paid", 1, 2, 500);
    for (const int id : {1, 1, 2})
        emit("order.cancelled", id, 3, 999);
    const auto processed = [](Db &db)
    { return db.value("select count(*) from outbox.processed_events"); };
    ASSERT_TRUE(
        saga.supervise_until([&] { return processed(payment) == "4" && processed(stock) == "4"; }))
        << processed(payment) << " and " << processed(stock) << " events processed";
    EXPECT_EQ(payment.value("select cents from accounts where customer = 'c1'"), "100000000");
    EXPECT_EQ(payment.value("select string_agg(event_type, ' ' order by seq) from outbox.events"),
              "payment.taken payment.refunded");
    EXPECT_EQ(stock.value("select on_hand from items where item = 'apple'"), "1000000");
    EXPECT_EQ(stock.value("select string_agg(event_type, ' ' order by seq) from outbox.events"),
              "stock.reserved stock.released");
    saga.end_services();
}

TEST(Saga, ARequestThatIsNoOrderIsRefusedAndOneThatComesTwiceIsDoneOnce)
{
    Saga saga(Saga::Customers::kNone);
    const std::string good = R"({"customer": "c1", "item": "apple", "quantity": 2, "cents": 500})";
    std::string first;
    ASSERT_TRUE(saga.supervise_until(
        [&] { return (first = saga.request("a", good)).rfind("201", 0) == 0; }))
        << first;
    EXPECT_EQ(saga.request("a", good), first);
    const std::vector<std::string> odd = {
        "",
        "no order",
        "[]",
        "{}",
        std::string(100000, '['),
        R"({"customer": 1, "item": "apple", "quantity": 2, "cents": 500})",
        R"({"customer": "c\u0000", "item": "apple", "quantity": 2, "cents": 500})",
        R"({"customer": "\ud800", "item": "apple", "quantity": 2, "cents": 500})",
        R"({"customer": "c1", "item": null, "quantity": 2, "cents": 500})",
        R"({"customer": "c1", "item": "apple", "quantity": 1.5, "cents": 500})",
        R"({"customer": "c1", "item": "apple", "quantity": 2, "cents": 1.5})",
        R"({"customer": "c1", "item": "apple", "quantity": 2, "cents": true})",
        R"({"customer": "c1", "item": "apple", "quantity": -2, "cents": 500})",
        R"({"customer": "c1", "item": "apple", "quantity": 3000000000, "cents": 500})"};
    for (const std::string &body : odd)
        EXPECT_EQ(saga.request("b", body), "400 {}") << body.substr(0, 100);
    EXPECT_EQ(saga.request("", good), "400 {}");
    EXPECT_EQ(saga.request(std::string(300, 'x'), good), "400 {}");
    EXPECT_EQ(saga.request("a", good + " "), "422 {}");
    Db orders = saga.connect("orders");
    EXPECT_EQ(orders.value("select count(*) from orders"), "1");
    EXPECT_EQ(orders.value("select count(*) from outbox.idempotency_keys"), "1");
    ASSERT_TRUE(saga.supervise_until(
        [&] { return orders.value("select state from orders") == "shipped"; }));
    saga.end_services();
}
