// The servers, services and customers of examples/saga.
#pragma once

#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "service.h"
#include "support/kafka_cluster.h"
#include "support/pg.h"
#include "support/pg_cluster.h"
#include "support/tree.h"
#include "support/workspace.h"

namespace outbox::test
{

constexpr auto kSettleLimit = std::chrono::minutes(3);
constexpr auto kOrderTimeout = std::chrono::seconds(8);
constexpr auto kProgressLimit = std::chrono::seconds(60);
constexpr int kWays = 5; // shipped, three refusals, and the time-out
inline const std::vector<std::string> kDatabases = {"orders", "payment", "stock", "shipping"};

constexpr const char *kRequest = R"(
import http.client, os, sys
connection = http.client.HTTPConnection("127.0.0.1", int(os.environ["PORT"]), timeout=10)
connection.request("POST", "/orders", sys.argv[2].encode(), {"Idempotency-Key": sys.argv[1]})
response = connection.getresponse()
print(response.status, response.read().decode(), end="")
)";

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

} // namespace outbox::test
