// What all examples promise, of each language in turn.
#include <iostream>
#include <random>

#include "shop.h"
#include "support/seed.h"

using namespace outbox::test;

namespace
{

constexpr int kOrders = 1000;
constexpr int kBatches = 50;
constexpr auto kBetweenBatches = Milliseconds(150);
// How often clients commit offsets by themselves, and a little.
constexpr auto kCommitInterval = Milliseconds(6000);
constexpr auto kLimit = std::chrono::seconds(90);

class Examples : public testing::TestWithParam<Language>
{
};

std::string
balances_total(Db &db)
{
    return db.value(
        "select coalesce(sum(orders), 0) || ' orders, ' || coalesce(sum(cents), 0) || ' cents'"
        " from balances");
}

std::string
orders_total(Db &db)
{
    return db.value(
        "select count(*) || ' orders, ' || coalesce(sum(cents), 0) || ' cents' from orders");
}

// Kills one consumer or the other at random moments.
class Killer
{
public:
    explicit Killer(std::vector<Service> &consumers) : consumers_(consumers), random_(choose_seed())
    {
        choose();
    }

    void strike_if_due()
    {
        if (Clock::now() < next_)
            return;
        consumers_[random_() % consumers_.size()].kill_and_restart();
        ++strikes_;
        choose();
    }
    int strikes() const { return strikes_; }

private:
    void choose() { next_ = Clock::now() + Milliseconds(300 + random_() % 2200); }

    std::vector<Service> &consumers_;
    std::mt19937 random_;
    Clock::time_point next_;
    int strikes_ = 0;
};

// Orders of all customers and, now and then, one that is refused: at once, or by the commit.
void
place_orders(Shop &shop, Killer &killer)
{
    for (int batch = 0; batch < kBatches; ++batch)
    {
        for (int number = 0; number < kOrders / kBatches; ++number)
            shop.request("c" + std::to_string(number % Shop::kCustomers), 100 + number);
        shop.request("c0", 0);
        shop.request("nobody", 100);
        const auto next = Clock::now() + kBetweenBatches;
        shop.supervise_until(kBetweenBatches,
                             [&]
                             {
                                 killer.strike_if_due();
                                 return Clock::now() >= next;
                             });
    }
}

// Whether a consumer waits for the table of balances.
bool
one_waits(Db &db)
{
    return db.value("select count(*) from pg_stat_activity where datname = current_database()"
                    " and usename = 'billing' and wait_event_type = 'Lock'") != "0";
}

} // namespace

TEST_P(Examples, EachOrderIsBilledOnceThoughConsumersAreKilledAndEventsReplayed)
{
    const auto start = Clock::now();
    Shop shop(GetParam());
    Db db = shop.connect();
    Killer killer(shop.consumers());
    place_orders(shop, killer);

    ASSERT_TRUE(shop.supervise_until(
        kLimit, [&] { return shop.placed() + shop.refused() == kOrders + 2 * kBatches; }))
        << shop.placed() << " placed, " << shop.refused() << " refused\n"
        << shop.said();
    EXPECT_EQ(shop.placed(), kOrders);
    EXPECT_EQ(db.value("select count(*) from orders"), std::to_string(kOrders));
    EXPECT_EQ(db.value("select count(*) from outbox.events"), std::to_string(kOrders))
        << "a refused order has an event";

    const std::string expected = orders_total(db);
    ASSERT_TRUE(shop.supervise_until(kLimit, [&] { return balances_total(db) == expected; }))
        << balances_total(db) << " of " << expected << "\n"
        << shop.said();

    std::cout << GetParam().name << ": " << expected << ", billed after " << since(start).count()
              << " ms, with " << killer.strikes() << " kills of a consumer\n";

    // All of it once more. What comes behind it in every partition shows that it was read.
    db.exec("select outbox.replay(max_count => 10000, rate_per_second => 10000, dry_run => false)");
    ASSERT_TRUE(shop.supervise_until(
        kLimit, [&] { return db.value("select state from outbox.replays") == "DONE"; }));
    for (int number = 0; number < 50; ++number)
        shop.request("c1", 1);
    EXPECT_TRUE(shop.supervise_until(
        kLimit, [&] { return db.value("select sum(orders) >= 1050 from balances") == "t"; }));
    EXPECT_EQ(balances_total(db), orders_total(db)) << shop.said();
    EXPECT_EQ(db.value("select count(*) from (select customer, count(*), sum(cents) from orders "
                       "group by customer"
                       " except select customer, orders, cents from balances) as differing"),
              "0");
    EXPECT_EQ(db.value("select count(*) from refused_records"), "0");
    EXPECT_GE(killer.strikes(), 3);
    EXPECT_TRUE(shop.end());
}

TEST_P(Examples, ARequestThatIsNoOrderIsRefusedAndStopsNoOther)
{
    Shop shop(GetParam());
    Db db = shop.connect();
    db.exec("insert into customers values ('Zoë 🦊'), (''), ('O''Hara \\x')");
    const std::vector<std::string> good = {
        R"({"customer": "Zoë 🦊", "cents": 100})", R"({"customer": "", "cents": 100})",
        R"({"customer": "O'Hara \\x", "cents": 9007199254740991})"};
    const std::vector<std::string> odd = {
        "", "no order", "[]", "{}", "\xff", R"({"customer": "c1"})",
        R"({"customer": "c1", "cents": 1.5})", R"({"customer": "c1", "cents": true})",
        R"({"customer": "c1", "cents": null})", R"({"customer": "c1", "cents": -1})",
        R"({"customer": "c1", "cents": 100} 1)", R"({"customer": "c1", "cents": "1\n42"})",
        R"({"customer": "c1", "cents": 9223372036854775808})", R"({"customer": 1, "cents": 100})",
        R"({"customer": "\ud800", "cents": 100})",
        R"({"customer": ")" + std::string(70000, 'x') + R"(", "cents": 100})",
        // The second would be outside of the first one's quotes, if a NUL ended the line.
        R"({"customer": "c1\u0000", "cents": 100})",
        R"({"customer": ", 1); insert into orders values (default, $$c1$$, 1); --", "cents": 1})"};
    for (const std::string &line : good)
        shop.send(line);
    for (const std::string &line : odd)
        shop.send(line);
    shop.request("c1", 100);
    ASSERT_TRUE(shop.supervise_until(
        kLimit, [&] { return shop.placed() == good.size() + 1 && shop.refused() == odd.size(); }))
        << shop.placed() << " placed, " << shop.refused() << " refused of " << odd.size() << "\n"
        << shop.said();
    EXPECT_EQ(db.value("select count(*) from orders"), std::to_string(good.size() + 1));
    EXPECT_EQ(
        db.value("select count(*) from orders as o full join outbox.events as e"
                 " on e.aggregate_id = o.id::text where (e.payload ="
                 " jsonb_build_object('order_id', o.id, 'customer', customer, 'cents', cents))"
                 " is not true"),
        "0")
        << "an event does not say what was ordered";
    EXPECT_TRUE(
        shop.supervise_until(kLimit, [&] { return balances_total(db) == orders_total(db); }))
        << balances_total(db) << " of " << orders_total(db) << "\n"
        << shop.said();
    EXPECT_EQ(db.value("select count(*) from refused_records"), "0");
    EXPECT_TRUE(shop.end());
}

TEST_P(Examples, ADatabaseInAnotherEncodingGetsTheSameText)
{
    Shop shop(GetParam(), "LATIN1");
    Db db = shop.connect();
    db.exec("insert into customers values (U&'Zo\\00EB')");
    shop.send(R"({"customer": "🦊", "cents": 100})"); // which is not in LATIN1
    shop.send(R"({"customer": "Zoë", "cents": 100})");
    EXPECT_TRUE(shop.supervise_until(
        kLimit,
        [&]
        {
            return shop.refused() == 1 &&
                   db.value("select count(*) from balances where customer = U&'Zo\\00EB'") == "1";
        }))
        << shop.placed() << " placed\n"
        << shop.said();
    EXPECT_TRUE(shop.end());
}

TEST_P(Examples, ARecordUnderWayIsNotLostWithItsConnectionNorWithItsConsumer)
{
    Shop shop(GetParam());
    Db db = shop.connect();
    Db other = shop.connect();
    other.exec("begin");
    other.exec("lock table balances");
    shop.request("c1", 100);
    ASSERT_TRUE(shop.supervise_until(kLimit, [&] { return one_waits(db); })) << shop.said();
    shop.supervise_until(kCommitInterval, [] { return false; });
    db.exec("select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and usename = 'billing'");
    // An error that no record causes is none to go on after.
    ASSERT_TRUE(shop.supervise_until(kLimit, [&] { return one_waits(db); })) << shop.said();
    shop.supervise_until(kCommitInterval, [] { return false; });
    for (Service &consumer : shop.consumers())
        consumer.kill_and_restart();
    other.exec("commit");
    EXPECT_TRUE(
        shop.supervise_until(kLimit, [&] { return balances_total(db) == "1 orders, 100 cents"; }))
        << balances_total(db) << "\n"
        << shop.said();
    EXPECT_EQ(db.value("select count(*) from refused_records"), "0");
}

TEST_P(Examples, AConsumerThatIsAskedToEndFinishesItsRecordAndCommitsTheOffset)
{
    Shop shop(GetParam());
    Db db = shop.connect();
    shop.request("c1", 100); // both are ready to be asked
    ASSERT_TRUE(
        shop.supervise_until(kLimit, [&] { return balances_total(db) == "1 orders, 100 cents"; }))
        << shop.said();
    Db other = shop.connect();
    other.exec("begin");
    other.exec("lock table balances");
    shop.request("c1", 100);
    ASSERT_TRUE(shop.supervise_until(kLimit, [&] { return one_waits(db); })) << shop.said();
    ASSERT_TRUE(shop.ask_to_end());
    wait_until(Milliseconds(500), [] { return false; });
    other.exec("commit");
    ASSERT_TRUE(shop.ended());
    EXPECT_EQ(balances_total(db), "2 orders, 200 cents");
    // Without the marks, only offsets keep what is done from being done again.
    db.exec("delete from outbox.processed_events");
    for (int number = 0; number < 50; ++number)
        shop.request("c1", 100);
    EXPECT_TRUE(shop.supervise_until(
        kLimit, [&] { return db.value("select sum(orders) >= 52 from balances") == "t"; }))
        << shop.said();
    EXPECT_EQ(balances_total(db), "52 orders, 5200 cents");
}

TEST_P(Examples, ARecordThatCannotBeProcessedIsSetAsideAndStopsNoOther)
{
    Shop shop(GetParam());
    Db db = shop.connect();
    // One key, so one partition: the good one is behind all of them.
    const std::vector<std::string> unreadable = {
        R"(outbox.emit_bytes('order', '1', 'order.placed', '\xff00'))",
        R"(outbox.emit_bytes('order', '1', 'order.placed', '\x00'))",
        R"(outbox.emit_bytes('order', '1', 'order.placed', '{"customer": "c\\u0000", "cents": 100}'))",
        // Not UTF-8, and nested too deeply.
        R"(outbox.emit_bytes('order', '1', 'order.placed', '{"customer": "c\\200", "cents": 100}'))",
        R"(outbox.emit_bytes('order', '1', 'order.placed', convert_to(repeat('[', 99999), 'UTF8')))",
        R"(outbox.emit('order', '1', 'order.placed', null))", // a tombstone
        R"(outbox.emit('order', '1', 'order.placed', '[1]'))",
        R"(outbox.emit('order', '1', 'order.placed', '{"cents": 100}'))",
        R"(outbox.emit('order', '1', 'order.placed', '{"customer": {}, "cents": 100}'))",
        // Too long for the index of balances.
        R"(outbox.emit('order', '1', 'order.placed', jsonb_build_object('cents', 100, 'customer',
           (select string_agg(md5(n::text), '') from generate_series(1, 1000) as n))))",
        R"(outbox.emit('order', '1', 'order.placed', '{"customer": "c1", "cents": "many"}'))",
        R"(outbox.emit('order', '1', 'order.placed', '{"customer": "c1", "cents": true}'))",
        R"(outbox.emit('order', '1', 'order.placed', '{"customer": "c1", "cents": 1e30}'))"};
    for (const std::string &event : unreadable)
        db.exec("select " + event);
    db.exec("select outbox.emit('order', '1', 'order.seen', '[]')"); // none of its business
    db.exec(
        R"(select outbox.emit('order', '1', 'order.placed', '{"customer": "c1", "cents": 100}'))");
    EXPECT_TRUE(
        shop.supervise_until(kLimit, [&] { return balances_total(db) == "1 orders, 100 cents"; }))
        << balances_total(db) << "\n"
        << shop.said();
    EXPECT_EQ(db.value("select count(*) from refused_records"), std::to_string(unreadable.size()));
    EXPECT_EQ(
        db.value(
            "select count(*) from refused_records where position('\\xff'::bytea in value) > 0"),
        "1");
    EXPECT_EQ(shop.consumers()[0].ended() + shop.consumers()[1].ended(), 0) << shop.said();
    EXPECT_TRUE(shop.end());
}

INSTANTIATE_TEST_SUITE_P(In, Examples, testing::ValuesIn(languages()),
                         [](const auto &of) { return of.param.name; });
