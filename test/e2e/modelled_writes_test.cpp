// Random transactions by every way of writing, against a model of what they have to come to that
// knows nothing of the table.
#include <atomic>
#include <functional>
#include <thread>

#include "model_client.h"

#include "support/seed.h"

using namespace outbox::test;

namespace
{

constexpr int kClients = 4;
// Events. A disk that hangs for seconds makes fewer than that in the time of a test.
constexpr size_t kEnough = 200;
constexpr std::chrono::minutes kLimit{1};

std::chrono::seconds
test_time()
{
    const char *wanted = std::getenv("OUTBOX_TEST_MODEL_SECONDS");
    return std::chrono::seconds(wanted != nullptr ? std::stoi(wanted) : 3);
}

class Clients
{
public:
    Clients(const TestDatabase &database, Model &model, unsigned seed)
    {
        for (int number = 0; number < kClients; ++number)
            threads_.emplace_back(
                [this, &database, &model, number, seed]
                {
                    ModelClient client(database, model, number,
                                       seed + static_cast<unsigned>(number));
                    while (!stopping_)
                        attempt(client);
                    const std::lock_guard<std::mutex> lock(mutex_);
                    committed_ += client.transactions_committed();
                    for (const auto &[state, count] : client.errors())
                        errors_[state] += count;
                });
    }
    ~Clients() { finish(); }

    void finish()
    {
        stopping_ = true;
        for (std::thread &thread : threads_)
            thread.join();
        threads_.clear();
    }

    std::string describe() const
    {
        std::string text = std::to_string(committed_) + " committed; errors:";
        for (const auto &[state, count] : errors_)
            text += " " + state + " x" + std::to_string(count);
        return text;
    }

private:
    static void attempt(ModelClient &client)
    {
        try
        {
            client.transaction();
        }
        catch (const std::exception &error)
        {
            ADD_FAILURE() << error.what();
        }
    }

    std::atomic<bool> stopping_{false};
    std::mutex mutex_;
    int committed_ = 0;
    std::map<std::string, int> errors_;
    std::vector<std::thread> threads_;
};

// What administrators do meanwhile.
const std::vector<std::string> kChanges = {
    "alter table outbox.events add column added int not null default 7",
    "alter table outbox.events drop column added",
    "create index model_index on outbox.events (event_type)",
    "drop index outbox.model_index",
    "create index concurrently model_own on outbox.events_0 ((lower(event_type)))",
    "drop index concurrently outbox.model_own",
    "reindex index concurrently outbox.events_0_xid_seq",
    "reindex table outbox.events_1",
    "create trigger aaa before insert on outbox.events for each row execute function model_leave()",
    "drop trigger aaa on outbox.events",
    "create trigger zzz after insert on outbox.events for each row execute function model_leave()",
    "drop trigger zzz on outbox.events",
    "alter table outbox.events add constraint model_check check (event_type <> 'never')",
    "alter table outbox.events drop constraint model_check",
    "alter table outbox.events_0 set (fillfactor = 90)",
    "vacuum full outbox.events_0",
    "vacuum analyze outbox.events",
    "cluster outbox.events_0 using events_0_xid_seq",
    "select setval('outbox.events_seq', 1)",
    "select pg_cancel_backend(pid) from pg_stat_activity where backend_type = 'client backend' and "
    "datname = current_database() and pid <> pg_backend_pid() order by random() limit 1",
    "select outbox.pause('model')",
    "select outbox.resume()",
    "grant select on outbox.events to pg_monitor",
    "insert into outbox.routes (aggregate_type, on_failure) values ('elsewhere', 'skip') on "
    "conflict do nothing",
    "delete from outbox.routes"};

const std::vector<std::string> kViolence = {
    "select pg_terminate_backend(pid) from pg_stat_activity where backend_type = 'client backend' "
    "and datname = current_database() and pid <> pg_backend_pid() order by random() limit 1",
    "select pg_terminate_backend(pid) from outbox.relay_status"};

class Administrator
{
public:
    Administrator(const TestDatabase &database, unsigned seed, std::vector<std::string> acts)
        : thread_([this, &database, seed, acts = std::move(acts)] { run(database, seed, acts); })
    {
    }
    ~Administrator() { finish(); }

    void finish()
    {
        stopping_ = true;
        if (thread_.joinable())
            thread_.join();
    }

private:
    void run(const TestDatabase &database, unsigned seed, const std::vector<std::string> &acts)
    {
        std::mt19937 random(seed);
        while (!stopping_)
        {
            try
            {
                Db db = database.connect();
                db.exec("set lock_timeout = '200ms'");
                for (int i = 0; i < 100 && !stopping_; ++i)
                    act(db, acts[random() % acts.size()]);
            }
            catch (const std::exception &)
            {
            }
        }
        Db db = database.connect();
        db.exec("select outbox.resume()");
    }

    static void act(Db &db, const std::string &statement)
    {
        try
        {
            db.exec(statement);
        }
        catch (const SqlError &error)
        {
            EXPECT_NE(error.sqlstate().substr(0, 2), "XX") << error.what();
            db.exec("");
        }
    }

    std::atomic<bool> stopping_{false};
    std::thread thread_;
};

void
run_model(PgCluster &server, const std::vector<std::string> &acts, bool exact,
          const std::function<void(const TestDatabase &)> &disturb = {})
{
    const unsigned seed = choose_seed();
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    Db db = database.connect();
    ModelClient::prepare(db);
    db.exec("create function model_leave() returns trigger language plpgsql as $$ begin return "
            "new; end $$");
    Model model;
    {
        Clients clients(database, model, seed);
        std::unique_ptr<Administrator> administrator;
        if (!acts.empty())
            administrator = std::make_unique<Administrator>(database, seed, acts);
        const auto enough = Clock::now() + test_time();
        const auto limit = enough + kLimit;
        while (Clock::now() < enough || (model.size() <= kEnough && Clock::now() < limit))
        {
            consumer.read_for(std::chrono::milliseconds(500));
            if (disturb)
                disturb(database);
        }
        administrator.reset();
        clients.finish();
        std::printf("%s\n", clients.describe().c_str());
    }
    EXPECT_GT(model.expect_delivered(consumer, exact), kEnough);
}

} // namespace

TEST(ModelledWrites, ComeAsTheyWereCommitted)
{
    run_model(cluster(), {}, true);
}

TEST(ModelledWrites, ComeAsTheyWereCommittedWhileTheTablesChange)
{
    OwnCluster server(Settings{{"deadlock_timeout", "100ms"}});
    run_model(server, kChanges, true);
}

TEST(ModelledWrites, ComeWhileTheRingTurns)
{
    OwnCluster server(Settings{{"deadlock_timeout", "100ms"}, {"outbox.retention", "3s"}});
    run_model(server, {}, true);
}

TEST(ModelledWrites, ComeWhateverIsTerminated)
{
    OwnCluster server(Settings{{"deadlock_timeout", "100ms"}});
    std::vector<std::string> acts = kChanges;
    acts.insert(acts.end(), kViolence.begin(), kViolence.end());
    run_model(server, acts, false);
}

TEST(ModelledWrites, ComeWhileBackendsAreKilled)
{
    OwnCluster server(Settings{{"deadlock_timeout", "100ms"}});
    server.expect_kill();
    unsigned round = 0;
    run_model(server, {}, false,
              [&](const TestDatabase &database)
              {
                  if (++round % 6 != 0)
                      return;
                  Db db = database.connect();
                  const std::vector<std::string> pids = db.column(
                      "select pid from pg_stat_activity where backend_type = 'client backend' and "
                      "datname = current_database() and pid <> pg_backend_pid() limit 1");
                  if (!pids.empty())
                      database.kill_process(std::stoi(pids[0]));
              });
}
