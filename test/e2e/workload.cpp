#include "workload.h"

#include <random>

namespace outbox::test
{

namespace
{

class Client
{
public:
    Client(Db db, std::string type, int number, int accounts, unsigned seed)
        : db_(std::move(db)), type_(std::move(type)), number_(number), accounts_(accounts),
          random_(seed)
    {
    }

    // Ends what this client had prepared when the server crashed: its locks would stop the others.
    void clean_up()
    {
        const auto gids = db_.column("select quote_literal(gid) from pg_prepared_xacts "
                                     "where database = current_database() and gid like $1",
                                     gid_prefix() + "%");
        for (const std::string &gid : gids)
            db_.exec("commit prepared " + gid);
    }

    void transaction(int count)
    {
        const std::string account = std::to_string(1 + choose(accounts_));
        db_.exec("begin");
        emit(account, "changed");
        switch (choose(8))
        {
        case 0:
            db_.exec("rollback");
            break;
        case 1:
            db_.exec("savepoint s");
            emit(account, "undone");
            db_.exec("rollback to s");
            db_.exec("commit");
            break;
        case 2:
            db_.exec("savepoint s");
            emit(account, "changed again");
            db_.exec("release s");
            db_.exec("commit");
            break;
        case 3:
            two_phase(count);
            break;
        default:
            db_.exec("commit");
        }
    }

private:
    // One of 0 … count - 1.
    int choose(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }

    void emit(const std::string &account, const char *event_type)
    {
        const std::string balance = db_.value(
            "update accounts set balance = balance + 1 where id = $1::int returning balance",
            account);
        db_.exec("select outbox.emit($1, $2, $3, jsonb_build_object('balance', $4::int))", type_,
                 account, event_type, balance);
    }

    std::string gid_prefix() const { return type_ + " client " + std::to_string(number_) + " "; }

    void two_phase(int count)
    {
        const std::string gid = "'" + gid_prefix() + std::to_string(count) + "'";
        db_.exec("prepare transaction " + gid);
        db_.exec((choose(3) == 0 ? "rollback prepared " : "commit prepared ") + gid);
    }

    Db db_;
    std::string type_;
    int number_;
    int accounts_;
    std::mt19937 random_;
};

} // namespace

Workload::Workload(PgCluster &server, const TestDatabase &database, const Options &options)
    : server_(server), database_(database), options_(options)
{
    database.connect().exec(
        "create table accounts (id int primary key, balance int not null default 0);"
        "insert into accounts (id) select generate_series(1, " +
        std::to_string(options.accounts) + ")");
    const unsigned seed = choose_seed();
    for (int number = 0; number < options.clients; ++number)
        clients_.emplace_back([this, number, seed]
                              { run_client(number, seed + static_cast<unsigned>(number)); });
}

Workload::~Workload()
{
    stop();
    finish();
}

void
Workload::finish()
{
    for (std::thread &client : clients_)
        client.join();
    clients_.clear();
}

void
Workload::run_client(int number, unsigned seed)
{
    int count = 0;
    const auto deadline = Clock::now() + std::chrono::minutes(3);
    // Ends only after a pass without an error, so that it leaves no prepared transaction behind.
    for (;;)
    {
        try
        {
            Client client(database_.connect(), database_.type(), number, options_.accounts, seed);
            client.clean_up();
            while (count < options_.transactions && !stopping_)
            {
                client.transaction(count++);
                ++done_;
            }
            return;
        }
        catch (const SqlError &error)
        {
            if (!options_.server_may_crash || Clock::now() > deadline)
            {
                ADD_FAILURE() << "client " << number << ": " << error.what();
                return;
            }
        }
    }
}

} // namespace outbox::test
