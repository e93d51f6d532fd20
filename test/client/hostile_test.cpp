// Handlers that do whatever comes to a program's mind, and the one thing that has to be true of
// each event afterwards: its effect was made once, or there is a dead letter that says why.
#include <atomic>
#include <cstring>
#include <map>
#include <random>
#include <set>

#include "client/src/sql.h"
#include "harness.h"
#include "support/seed.h"

using namespace outbox::test;

namespace
{

constexpr int kMaxAttempts = 3;
constexpr int kRecords = 60;

void
run_loosely(PGconn *connection, const std::string &sql)
{
    PQclear(PQexec(connection, sql.c_str()));
}

// What a handler does besides its effect. None of these makes an effect in a transaction of its own
// and commits that: such an effect is one outside of the transaction, as a mail would be.
const std::vector<std::string> kStatements = {
    // good ones
    "savepoint a; insert into noise values (1); rollback to a; release a",
    "savepoint a; savepoint b; release a", "set local statement_timeout = '10s'",
    "create temp table if not exists t (n int)", "deallocate all", "prepare p as select 1",
    // errors
    "select 1/0", "savepoint a; select 1/0", "insert into no_such_table values (1)",
    // ends
    "rollback", "rollback and chain", "rollback; begin", "commit", "commit and chain",
    "commit; begin", "commit; begin; savepoint x", "prepare transaction 'p1'",
    "end; start transaction", "rollback; discard all; begin",
    "rollback; begin; insert into noise values (2)", "begin; commit; begin",
    "abort; begin isolation level serializable",
    // what stays in a session
    "set search_path = pg_catalog", "set session authorization nobody_here",
    "set role hostile_role", "set default_transaction_read_only = on",
    "set default_transaction_isolation = serializable", "set statement_timeout = '1ms'",
    "set client_encoding = latin1", "listen c", "notify c, 'x'",
    "declare c cursor with hold for select 1", "select pg_advisory_lock(7)",
    "set session_replication_role = replica", "set idle_in_transaction_session_timeout = '1ms'",
    "set outbox.serialize_keys = on", "set standard_conforming_strings = off",
    // the connection
    "select pg_terminate_backend(pg_backend_pid())", "select pg_cancel_backend(pg_backend_pid())",
    "copy noise from stdin", "copy noise to stdout"};

constexpr size_t kCallThatCommits = 0;
const std::vector<std::function<void(PGconn *)>> kCalls = {
    [](PGconn *c) { PQsendQuery(c, "commit; begin"); },
    [](PGconn *c) { PQenterPipelineMode(c); },
    [](PGconn *c) { PQsendQuery(c, "select 1"); },
    [](PGconn *c) { PQsendQuery(c, "rollback and chain"); },
    [](PGconn *c) { PQsetnonblocking(c, 1); },
    [](PGconn *c) { PQreset(c); },
    [](PGconn *c)
    {
        PQreset(c);
        run_loosely(c, "begin");
    },
    [](PGconn *c)
    {
        PQsendQuery(c, "select generate_series(1, 3)");
        PQsetSingleRowMode(c);
        PQclear(PQgetResult(c));
    }};

const std::vector<std::function<void()>> kEnds = {
    [] {},
    [] {},
    [] {},
    [] { throw std::runtime_error("the handler's"); },
    [] { throw 1; },
    [] { throw "text"; },
    [] { throw outbox::Error("the handler's", "P0001"); },
    [] { throw outbox::DatabaseError("the handler's", "40001"); },
    [] { throw outbox::DatabaseError("the handler's", "08006"); },
    [] { throw outbox::KafkaError("the handler's", "_FATAL"); },
    [] { throw outbox::UsageError("the handler's"); },
    [] { throw std::bad_alloc(); }};

template <class Choice>
const Choice &
one_of(const std::vector<Choice> &choices, std::mt19937 &random)
{
    return choices[random() % choices.size()];
}

// What is done is decided by the seed, the event and the attempt.
struct Hostile
{
    void operator()(PGconn *transaction, const outbox::Record &record)
    {
        const int attempt = ++(*attempts)[record.event_id];
        const int number = std::stoi(*record.value);
        std::mt19937 random(seed * 1000003U + static_cast<unsigned>(number * 31 + attempt));
        // Sooner or later it is good, often too late.
        if (attempt > number % 6)
        {
            insert_effect(transaction, record);
            return;
        }
        const size_t steps = 1 + random() % 3;
        const size_t effect_at = random() % (steps + 1);
        bool made = false;
        for (size_t i = 0; i <= steps; ++i)
        {
            // Without a transaction it would be an effect elsewhere, too.
            if (i == effect_at && PQtransactionStatus(transaction) == PQTRANS_INTRANS)
            {
                PGresult *result =
                    PQexec(transaction,
                           ("insert into effects values ('" + record.event_id + "')").c_str());
                made = PQresultStatus(result) == PGRES_COMMAND_OK;
                PQclear(result);
            }
            if (i == steps)
                break;
            // A commit of a transaction that the handler began itself would be an effect elsewhere.
            const std::string &sql = one_of(kStatements, random);
            const bool commits = sql.find("commit") == 0 || sql.find("end") == 0 ||
                                 sql.find("begin; commit") == 0 || sql.find("prepare t") == 0;
            if (random() % 4 == 0)
            {
                const size_t call = random() % kCalls.size();
                if (call != kCallThatCommits || i == 0)
                    kCalls[call](transaction);
            }
            else if (!commits || i == 0)
                run_loosely(transaction, sql);
        }
        one_of(kEnds, random)();
        if (!made) // to return would be a lie
            throw std::runtime_error("the effect could not be made");
    }

    unsigned seed;
    std::shared_ptr<std::map<std::string, int>> attempts =
        std::make_shared<std::map<std::string, int>>();
};

struct Case
{
    size_t batch;
    outbox::OffsetPolicy policy;
};

void
expect_each_once_or_a_reason(unsigned seed, const Case &run)
{
    Scene scene;
    scene.db.exec("create table noise (n int)");
    for (int i = 0; i < kRecords; ++i)
        scene.writer.send(scene.topic, "k", std::to_string(i), event_id(i), {}, i % 2);
    scene.writer.flush();
    outbox::ConsumerOptions options = scene.options();
    options.batch = run.batch;
    options.offsets = run.policy;
    options.max_attempts = kMaxAttempts;
    options.backoff_initial = Milliseconds(1);
    options.backoff_max = Milliseconds(5);
    RunningConsumer consumer(options, Hostile{seed});
    EXPECT_TRUE(
        wait_until(std::chrono::seconds(60), [&]
                   { return group_lag(kafka().bootstrap(), options.consumer, scene.topic) == 0; }));
    consumer.finish();

    std::map<std::string, std::string> reasons;
    const std::optional<int64_t> letters = records_in(kafka().bootstrap(), scene.topic + ".dlq");
    ASSERT_TRUE(letters);
    for (const Record &letter : scene.dead_letters(static_cast<size_t>(*letters)))
        reasons[letter.header("id").value_or("")] = letter.header("dlq_error").value_or("");
    EXPECT_EQ(reasons.size(), static_cast<size_t>(*letters)) << "an event has two dead letters";
    for (int i = 0; i < kRecords; ++i)
    {
        const std::string id = event_id(i);
        const std::string effects =
            scene.db.value("select count(*) from effects where event_id = $1::text::uuid", id);
        const std::string marks = scene.db.value(
            "select count(*) from outbox.processed_events where event_id = $1::text::uuid", id);
        if (reasons.count(id) == 0)
            EXPECT_EQ(effects + marks, "11") << "event " << i << " seed " << seed;
        else
        {
            EXPECT_EQ(effects + marks, "00")
                << "event " << i << " seed " << seed << ": " << reasons[id];
            EXPECT_NE(reasons[id], "");
        }
    }
    EXPECT_GT(reasons.size(), 0U);
    EXPECT_LT(reasons.size(), static_cast<size_t>(kRecords));
    EXPECT_EQ(scene.db.value("select count(*) from pg_prepared_xacts"), "0");
}

} // namespace

TEST(Hostile, EachEffectIsMadeOnceOrThereIsADeadLetterThatSaysWhy)
{
    const unsigned seed = choose_seed();
    for (const Case &run :
         {Case{1, outbox::OffsetPolicy::kafka}, Case{7, outbox::OffsetPolicy::postgres}})
        expect_each_once_or_a_reason(seed, run);
}

// Whatever a server says is kept in memory, logged, and sent on as the reason of a dead letter.
TEST(Hostile, TextsOfErrorsAreCutOffAtACharacter)
{
    const std::unique_ptr<PGconn, decltype(&PQfinish)> connection(
        PQconnectdb(cluster().conninfo("postgres").c_str()), &PQfinish);
    for (const char *encoding : {"UTF8", "LATIN1"})
    {
        run_sql(connection.get(), std::string("set client_encoding = ") + encoding);
        try
        {
            (void) outbox::detail::exec(
                connection.get(),
                "do $$ begin raise exception using message = 'x' || repeat(chr(228), 5000000),"
                " hint = repeat(chr(228), 5000000); end $$");
            ADD_FAILURE();
        }
        catch (const outbox::DatabaseError &error)
        {
            const std::string what = error.what();
            for (const std::string &text : {what, error.hint()})
            {
                EXPECT_LT(text.size(), 8300U);
                EXPECT_NE(text.find("... (cut off; it has "), std::string::npos);
            }
            if (encoding[0] == 'U')
            {
                EXPECT_EQ(what.find("... ") % 2, 1U) << "within a character";
            }
        }
    }
}

// In the encoding that the caller has asked for, as long as it is known: a lost connection has
// none.
TEST(Hostile, TextsOfALostConnectionAreCutOffAtACharacter)
{
    for (const char *encoding : {"UTF8", "SJIS", "EUC_JP"})
        for (const char *before : {"", "x", "xx"})
        {
            const std::unique_ptr<PGconn, decltype(&PQfinish)> connection(
                PQconnectdb(cluster().conninfo("postgres").c_str()), &PQfinish);
            run_sql(connection.get(), std::string("set client_encoding = ") + encoding);
            // What was under way is in the context of the error.
            PQclear(PQexec(connection.get(),
                           (std::string("do $$ begin execute 'select pg_terminate_backend("
                                        "pg_backend_pid()) --") +
                            before + "' || repeat(chr(12354), 10000); end $$")
                               .c_str()));
            ASSERT_EQ(PQstatus(connection.get()), CONNECTION_BAD);
            const std::string text = outbox::detail::connection_message(connection.get());
            const std::size_t begin = text.find("--") + 2 + std::strlen(before);
            const std::size_t end = text.find("... (cut off; it has ");
            ASSERT_NE(end, std::string::npos) << text;
            EXPECT_EQ((end - begin) % (encoding[0] == 'U' ? 3 : 2), 0U) << encoding;
        }
}
