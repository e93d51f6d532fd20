#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "e2e/servers.h"
#include "service.h"

namespace outbox::test
{

// How the example of a language is run, in the directory in which scripts/examples has built
// it.
struct Language
{
    std::string name;
    std::vector<std::string> orders;
    std::vector<std::string> consumer;
    // What a process ends with that was asked to: 0, but a JVM ends by the signal that it got.
    int end_status = 0;
};

// How GoogleTest prints one.
inline void
PrintTo(const Language &language, std::ostream *out)
{
    *out << language.name;
}

const std::vector<Language> &languages();

// A shop of one language: a database with the tables of examples/shop.sql, a topic, an order
// service and two members of a consumer group.
class Shop
{
public:
    static constexpr int kCustomers = 7;

    // Its database has the cluster's encoding, or the one named.
    explicit Shop(const Language &language, const std::string &encoding = "");

    Db connect() const { return database_.connect(); }
    const std::string &topic() const { return topic_; }
    std::vector<Service> &consumers() { return consumers_; }

    // Sends a line to the order service, and does not wait for its answer.
    void send(const std::string &line) { orders_->process().write_line(line); }
    void request(const std::string &customer, int cents);
    // How many requests have got an answer: an order's number, or that it was refused.
    size_t placed() const { return count_lines("0123456789"); }
    size_t refused() const { return count_lines("r"); }
    // Starts consumers that have ended, and polls until the condition holds.
    bool supervise_until(Milliseconds limit, const std::function<bool()> &condition);
    // SIGTERM for the consumers, and whether they end of it, in order.
    testing::AssertionResult ask_to_end();
    testing::AssertionResult ended();
    testing::AssertionResult end()
    {
        const testing::AssertionResult asked = ask_to_end();
        return asked ? ended() : asked;
    }
    // What the services have said, the end of it.
    std::string said() const;

private:
    void create_again(const std::string &encoding) const;
    void run_sql(const std::string &file) const;
    Command command(const std::vector<std::string> &words, const std::string &user,
                    const std::string &log) const;
    size_t count_lines(const std::string &first_characters) const;

    const Language &language_;
    TestDatabase database_;
    const std::string topic_;
    std::unique_ptr<Service> orders_;
    std::vector<Service> consumers_;
};

} // namespace outbox::test
