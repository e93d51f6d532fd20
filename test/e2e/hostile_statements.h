// Statements that nobody sane gives, for a server that must survive them.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "support/pg.h"

namespace outbox::test
{

// Given one after the other, whether or not those before have worked.
using Steps = std::vector<std::string>;

class HostileStatements
{
public:
    // Knows every function that the schema outbox has in this database, and of the database
    // `victim`, whatever the role of `db` is.
    HostileStatements(unsigned seed, Db &db, std::string victim);

    // A call of some function with some of the arguments that its types allow, plain or in a block,
    // cursor, function, prepared transaction, …
    Steps call();
    std::string plain_call();
    // One of the extension's trigger functions on a table that it does not belong to, whatever its
    // name and columns are.
    Steps trigger();
    // An INSERT of whatever into a table of events.
    Steps insert();
    // A command for a database or an extension; `in_transaction`: in one that is rolled back.
    Steps command(bool in_transaction);
    // A command for a database or an extension, without anything around it.
    std::string bare_command();

    // Of call(): its functions run in sessions that have these.
    static std::string prologue();

private:
    struct Function
    {
        std::string name;
        std::vector<std::string> types;
        bool returns_set_or_row;
    };

    size_t below(size_t limit) { return random_() % limit; }
    template <class Values> std::string any_of(const Values &values)
    {
        return values[below(values.size())];
    }
    std::string argument(const std::string &type);
    std::string array_of(const std::string &element);
    Steps wrapped(const std::string &statement, bool is_query);
    std::string database_name();
    std::string option_value();
    std::string options();
    std::string database_command();
    std::string extension_command();

    std::mt19937 random_;
    std::string victim_;
    std::vector<Function> functions_;
    std::vector<std::pair<std::string, std::string>> triggers_; // function and table
    bool has_infinite_intervals_;
    unsigned prepared_ = 0;
};

} // namespace outbox::test
