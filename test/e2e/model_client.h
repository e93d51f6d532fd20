#pragma once

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "write_model.h"

namespace outbox::test
{

// A client that writes random events by every way there is, in random transactions with savepoints,
// errors and rollbacks. Whatever error comes, it goes on.
class ModelClient
{
public:
    // Tables and functions for the clients of a database.
    static void prepare(Db &db);

    ModelClient(const TestDatabase &database, Model &model, int number, unsigned seed);

    // Tries to; what comes of it is in the model.
    void transaction();

    int transactions_committed() const { return committed_; }
    const std::map<std::string, int> &errors() const { return errors_; }

private:
    struct Level
    {
        ModelEvents events;
        ModelEvents deferred; // emitted by the commit
    };

    int below(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }
    std::string one_of(const std::vector<std::string> &choices);
    std::string json_string();
    std::string json(int depth);
    std::string json_of(const ModelEvents &events);
    ModelEvent event();
    ModelEvents events(int most);
    void add(const ModelEvents &events);

    void begin();
    bool goes_on(); // false: the transaction is over
    void write();
    void write_one();
    void write_many();
    void write_in_function();
    void write_around_function();
    void copy_in(const ModelEvents &events);
    void write_by_cursor();
    void write_shared();
    void write_in_time();
    void write_bad();
    void change_savepoints();
    // What `send` does commits the transaction.
    void end(const char *how, const std::function<void()> &send);
    void prepare_and_commit();
    void send_at_once(const std::vector<std::string> &statements);
    void implicit_transaction();
    ModelEvents all_events() const;
    bool alive();
    bool recover(const SqlError &error);
    void connect() { db_ = std::make_unique<Db>(database_.connect()); }

    const TestDatabase &database_;
    Model &model_;
    const int number_;
    std::mt19937 random_;
    std::unique_ptr<Db> db_;
    std::vector<Level> levels_;
    std::string shared_; // the key that this transaction shares
    int marks_ = 0;
    int committed_ = 0;
    std::map<std::string, int> errors_;
};

} // namespace outbox::test
