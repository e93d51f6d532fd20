#include "shop.h"

#include <csignal>
#include <sstream>

#include <sys/wait.h>

#include "support/tree.h"

namespace outbox::test
{

namespace
{

constexpr int kEndedByTerm = 128 + SIGTERM;

std::string
built(const std::string &language)
{
    return in_build("examples/" + language);
}

} // namespace

const std::vector<Language> &
languages()
{
    static const std::vector<Language> all = {
        {"psql", {"bash", "orders.sh"}, {"bash", "consumer.sh"}},
        {"python", {"venv/bin/python", "orders.py"}, {"venv/bin/python", "consumer.py"}},
        {"go", {"bin/orders"}, {"bin/consumer"}},
        {"node", {"node", "orders.js"}, {"node", "consumer.js"}},
        {"java",
         {"java", "-cp", "target/classes:target/dependency/*", "shop.Orders"},
         {"java", "-cp", "target/classes:target/dependency/*", "shop.Billing"},
         kEndedByTerm},
        {"rust", {"target/debug/orders"}, {"target/debug/consumer"}},
    };
    return all;
}

Shop::Shop(const Language &language, const std::string &encoding)
    : language_(language), database_(cluster(), TestDatabase::Extension::kNotInstalled),
      topic_(database_.name() + ".order")
{
    if (!encoding.empty())
        create_again(encoding);
    Db(cluster(), "postgres")
        .exec("alter database " + database_.name() + " set outbox.topic_template = '" +
              database_.name() + ".{aggregate_type}'");
    run_sql("shop.sql");
    if (language.name == "psql")
        run_sql("psql/shop_functions.sql");
    Db db = connect();
    for (int number = 0; number < kCustomers; ++number)
        db.exec("insert into customers values ($1)", "c" + std::to_string(number));
    kafka().create_topic(topic_);

    Command service = command(language.orders, "shop", "orders");
    service.keep_stdin_open = true;
    orders_ = std::make_unique<Service>(service);
    for (const char *log : {"consumer-1", "consumer-2"})
        consumers_.emplace_back(command(language.consumer, "billing", log));
}

void
Shop::create_again(const std::string &encoding) const
{
    Db db(cluster(), "postgres");
    db.exec("drop database " + database_.name());
    db.exec("create database " + database_.name() + " encoding '" + encoding +
            "' locale 'C' template template0");
}

void
Shop::run_sql(const std::string &file) const
{
    run_or_throw(
        Command({PgCluster::program("psql"), "-q", "-X", "-v", "ON_ERROR_STOP=1", "-d",
                 cluster().conninfo(database_.name()), "-f", in_source("examples/" + file)}));
}

Command
Shop::command(const std::vector<std::string> &words, const std::string &user,
              const std::string &log) const
{
    Command command(words);
    command.directory = built(language_.name);
    // A path with a slash is one of the example; its program is looked for before the directory is
    // entered.
    if (words[0].find('/') != std::string::npos)
        command.argv[0] = command.directory + "/" + words[0];
    command.output = new_log(language_.name + "-" + database_.name() + "-" + log).string();
    write_file(command.output, "");
    // No locale, as services often have it.
    command.environment = {{"LC_ALL", "C"},
                           {"PGHOST", "127.0.0.1"},
                           {"PGPORT", std::to_string(cluster().port())},
                           {"PGDATABASE", database_.name()},
                           {"PGUSER", user},
                           {"KAFKA", kafka().bootstrap()},
                           {"TOPIC", topic_},
                           {"CONSUMER", "billing_of_" + database_.name()}};
    return command;
}

void
Shop::request(const std::string &customer, int cents)
{
    send(R"({"customer": ")" + customer + R"(", "cents": )" + std::to_string(cents) + "}");
}

size_t
Shop::count_lines(const std::string &first_characters) const
{
    std::istringstream lines(orders_->output());
    size_t count = 0;
    for (std::string line; std::getline(lines, line);)
        count += !line.empty() && first_characters.find(line[0]) != std::string::npos ? 1 : 0;
    return count;
}

bool
Shop::supervise_until(Milliseconds limit, const std::function<bool()> &condition)
{
    return wait_until(limit,
                      [&]
                      {
                          for (Service &consumer : consumers_)
                              consumer.supervise();
                          return condition();
                      });
}

testing::AssertionResult
Shop::ask_to_end()
{
    for (Service &consumer : consumers_)
    {
        if (!consumer.started())
            return testing::AssertionFailure() << "a consumer has ended by itself\n" << said();
        consumer.process().signal(SIGTERM);
    }
    return testing::AssertionSuccess();
}

testing::AssertionResult
Shop::ended()
{
    for (Service &consumer : consumers_)
    {
        const std::optional<int> status = consumer.process().wait_for(std::chrono::seconds(20));
        if (!status)
            return testing::AssertionFailure() << "a consumer did not end when it was asked to\n"
                                               << said();
        if (!WIFEXITED(*status) ||
            (WEXITSTATUS(*status) != 0 && WEXITSTATUS(*status) != language_.end_status))
            return testing::AssertionFailure()
                   << "a consumer ended with " << describe_status(*status) << "\n"
                   << said();
    }
    return testing::AssertionSuccess();
}

std::string
Shop::said() const
{
    std::string text;
    for (const Service &consumer : consumers_)
        text += "--- a consumer:\n" + consumer.last_output();
    return text + "--- the order service:\n" + orders_->last_output();
}

} // namespace outbox::test
