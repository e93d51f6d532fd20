// The services of examples/saga, while everything is killed at random.
#include <csignal>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <random>

#include <gtest/gtest.h>

#include "service.h"
#include "support/kafka_cluster.h"
#include "support/pg.h"
#include "support/pg_cluster.h"
#include "support/seed.h"
#include "support/tree.h"
#include "support/workspace.h"

using namespace outbox::test;

namespace
{

constexpr auto kSettleLimit = std::chrono::minutes(3);
constexpr auto kOrderTimeout = std::chrono::seconds(8);
constexpr auto kProgressLimit = std::chrono::seconds(60);
constexpr int kWays = 5; // shipped, three refusals, and the time-out
const std::vector<std::string> kDatabases = {"orders", "payment", "stock", "shipping"};

std::chrono::seconds
duration()
{
    const char *minutes = std::getenv("OUTBOX_SAGA_MINUTES");
    return std::chrono::seconds(
        static_cast<int>(60 * std::atof(minutes != nullptr ? minutes : "1")));
}

constexpr const char *kRequest = R"(
import http.client, os, sys
connection = http.client.HTTPConnection("127.0.0.1", int(os.environ["PORT"]), timeout=10)
connection.request("POST", "/orders", sys.argv[2].encode(), {"Idempotency-Key": sys.argv[1]})
response = connection.getresponse()
print(response.status, response.read().decode(), end="")
)";

// The servers, the services and the customers.
class Saga
{
public:
    enum class Customers
    {
        kNone,
        kOrdering
    };

    explicit Saga(Customers customers) : postgres_("saga")
    {
        kafka_.start();
        // There are no topics yet.
        postgres_.init({{"outbox.bootstrap_servers", kafka_.bootstrap()},
                        {"outbox.backoff_max", "2s"},
                        {"max_worker_processes", "16"}});
        postgres_.expect_kill();
        postgres_.start();
        Db(postgres_, "postgres").exec("create role saga login");
        for (const std::string &database : kDatabases)
            create(database);
        services_.emplace_back(command("orders", {python(), "orders.py"}));
        services_.emplace_back(command("payment", {python(), "payment.py"}));
        services_.emplace_back(command("stock", {directory() + "/bin/stock"}));
        services_.emplace_back(command("shipping", {directory() + "/bin/shipping"}));
        if (customers == Customers::kNone)
            return;
        const Command ordering = command("customers", {python(), "customers.py"});
        answers_ = ordering.output;
        customers_ = std::make_unique<Process>(ordering);
    }

    Db connect(const std::string &database) { return {postgres_, database}; }
    PgCluster &postgres() { return postgres_; }
    RealKafka &kafka() { return kafka_; }
    Service &service(size_t index) { return services_.at(index); }

    // What the order service answers: "201 {...}". Nothing if it does not.
    std::string request(const std::string &key, const std::string &body)
    {
        Command request({python(), "-c", kRequest, key, body});
        request.environment = {{"PORT", std::to_string(http_port_)}};
        return run(request).output;
    }

    bool supervise_until(const std::function<bool()> &condition)
    {
        return wait_until(kSettleLimit,
                          [&]
                          {
                              supervise();
                              return condition();
                          });
    }

    void supervise_for(Milliseconds time)
    {
        const auto end = Clock::now() + time;
        wait_until(time + Milliseconds(100),
                   [&]
                   {
                       supervise();
                       return Clock::now() >= end;
                   });
    }

    // Whether one more order is shipped within the limit.
    bool ships_on(Milliseconds limit = kProgressLimit)
    {
        const std::optional<int> before = shipped();
        return wait_until(limit,
                          [&]
                          {
                              supervise();
                              return shipped().value_or(0) > before.value_or(0);
                          });
    }

    // Whether orders have ended in every way that there is.
    bool all_ways_taken()
    {
        return supervise_until(
            [&]
            {
                return count("select count(distinct coalesce(reason, state)) from orders"
                             " where state in ('shipped', 'cancelled')") == kWays;
            });
    }

    // The customers order no more, and each has got its answer.
    bool customers_end()
    {
        customers_->signal(SIGTERM);
        return supervise_until([&] { return !customers_->running(); });
    }

    // What report.py says when all adds up, or at last.
    Finished settle()
    {
        Finished report;
        supervise_until(
            [&]
            {
                report = this->report();
                return report.ok();
            });
        return report;
    }

    Finished report()
    {
        Command report({"bash", "-c", R"("$0" report.py <"$1")", python(), answers_});
        report.directory = directory();
        report.environment = {{"PGHOST", "127.0.0.1"},
                              {"PGPORT", std::to_string(postgres_.port())},
                              {"PGUSER", "postgres"}};
        return run(report);
    }

    void end_services()
    {
        for (Service &service : services_)
        {
            const std::optional<int> status = service.stop();
            EXPECT_TRUE(status.has_value() && *status == 0)
                << (status ? describe_status(*status) : "it did not end") << "\n"
                << service.last_output();
        }
    }

private:
    static std::string directory() { return in_build("examples/saga"); }
    static std::string python() { return in_build("examples/python/venv/bin/python"); }

    void create(const std::string &database)
    {
        Db(postgres_, "postgres").exec("create database " + database);
        run_or_throw(Command({PgCluster::program("psql"), "-q", "-X", "-v", "ON_ERROR_STOP=1", "-d",
                              postgres_.conninfo(database), "-f",
                              in_source("examples/saga/" + database + ".sql")}));
    }

    Command command(const std::string &name, const std::vector<std::string> &words)
    {
        Command command(words);
        command.directory = directory();
        command.output = new_log("saga-" + name).string();
        write_file(command.output, "");
        command.environment = {{"PGHOST", "127.0.0.1"},
                               {"PGPORT", std::to_string(postgres_.port())},
                               {"PGDATABASE", name},
                               {"PGUSER", "saga"},
                               {"KAFKA", kafka_.bootstrap()},
                               {"PORT", std::to_string(http_port_)},
                               {"ORDERS", "http://127.0.0.1:" + std::to_string(http_port_)},
                               {"ORDER_TIMEOUT", std::to_string(kOrderTimeout.count()) + " s"}};
        return command;
    }

    std::optional<int> shipped()
    {
        return count("select count(*) from orders where state = 'shipped'");
    }

    // Nothing while the server is away.
    std::optional<int> count(const std::string &query)
    {
        try
        {
            return std::stoi(Db(postgres_, "orders").value(query));
        }
        catch (const SqlError &)
        {
            return std::nullopt;
        }
    }

    void supervise()
    {
        for (Service &service : services_)
            service.supervise();
    }

    RealKafka kafka_;
    PgCluster postgres_;
    const int http_port_ = free_port();
    std::vector<Service> services_;
    std::string answers_;
    std::unique_ptr<Process> customers_;
};

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
