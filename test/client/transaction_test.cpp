// Handlers that end the transaction they were given, or leave things behind in its session.
#include <atomic>
#include <set>

#include <poll.h>

#include "harness.h"

using namespace outbox::test;

namespace
{

void
run_loosely(PGconn *connection, const std::string &sql)
{
    PQclear(PQexec(connection, sql.c_str()));
}

// Runs a consumer over two kinds of records: for those with a statement as their value the handler
// makes its effect, runs the statement and returns; for the others it only makes its effect.
struct Statements
{
    explicit Statements(const std::vector<std::string> &texts, const outbox::ConsumerOptions &base)
        : options(base)
    {
        options.max_attempts = 2;
        options.backoff_max = Milliseconds(20);
        statements = texts;
    }

    void write(Scene &scene) const
    {
        int number = 0;
        for (const std::string &statement : statements)
        {
            scene.writer.send(scene.topic, "k", statement, event_id(number++), {}, 0);
            scene.writer.send(scene.topic, "k", "", event_id(number++), {}, 0);
        }
        scene.writer.flush();
    }

    std::vector<std::string> statements;
    outbox::ConsumerOptions options;
};

void
effect_then_statement(PGconn *transaction, const outbox::Record &record)
{
    insert_effect(transaction, record);
    if (!record.value->empty())
        run_loosely(transaction, *record.value);
}

} // namespace

TEST(Transaction, AHandlerThatEndsItIsADeadLetterAndNeverAnEffectThatIsPassedOver)
{
    for (const size_t batch : {1, 6})
    {
        Scene scene;
        Statements hostile({"rollback", "rollback and chain", "rollback; begin", "commit",
                            "commit and chain", "commit; begin", "commit; begin; select 1/0",
                            "prepare transaction '" + scene.database.name() + "'",
                            "savepoint s; rollback and chain", "rollback; discard all; begin",
                            "reset all; commit"},
                           scene.options());
        hostile.options.batch = batch;
        hostile.write(scene);
        RunningConsumer consumer(hostile.options, &effect_then_statement);
        EXPECT_TRUE(scene.drained(hostile.options.consumer));
        consumer.finish();
        const size_t count = hostile.statements.size();
        // The effects of all others, once each, and of no hostile one.
        EXPECT_EQ(scene.effects(), static_cast<int>(count));
        EXPECT_EQ(scene.events(), static_cast<int>(count));
        EXPECT_EQ(scene.db.value("select count(*) from outbox.processed_events"),
                  std::to_string(count));
        EXPECT_EQ(scene.db.value("select count(*) from pg_prepared_xacts"), "0");
        std::set<std::string> seen;
        for (const Record &letter : scene.dead_letters(count))
        {
            seen.insert(letter.value.value_or(""));
            EXPECT_NE(letter.header("dlq_error").value_or("").find("the handler "),
                      std::string::npos);
            EXPECT_EQ(letter.header("dlq_attempts"), "2");
        }
        EXPECT_EQ(seen,
                  std::set<std::string>(hostile.statements.begin(), hostile.statements.end()));
    }
}

TEST(Transaction, ACommitBeforeAnExceptionCommitsNothing)
{
    Scene scene;
    scene.writer.write(scene.topic, "k", "{}", event_id(1));
    std::atomic<int> calls{0};
    const outbox::ConsumerOptions options = scene.options();
    RunningConsumer consumer(options,
                             [&](PGconn *transaction, const outbox::Record &record)
                             {
                                 insert_effect(transaction, record);
                                 if (++calls > 1)
                                     return;
                                 run_loosely(transaction, "commit");
                                 throw std::runtime_error("after half of it");
                             });
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    EXPECT_EQ(calls, 2);
    EXPECT_EQ(scene.effects(), 1);
}

// As with a server whose library does not know the setting yet, or a handler that takes it back.
TEST(Transaction, AMarkThatTheHandlerCommittedItselfIsNotTakenForAnEffect)
{
    Scene scene;
    const std::string off = "set local outbox.refuse_commit = off; ";
    Statements hostile({off + "commit", off + "commit; begin", off + "commit and chain",
                        off + "prepare transaction '" + scene.database.name() + "'"},
                       scene.options());
    hostile.options.max_attempts = 5;
    hostile.write(scene);
    std::set<std::string> called;
    RunningConsumer consumer(hostile.options,
                             [&](PGconn *transaction, const outbox::Record &record)
                             {
                                 if (!record.value->empty() &&
                                     !called.insert(record.event_id).second)
                                     ADD_FAILURE() << "called again: " << *record.value;
                                 effect_then_statement(transaction, record);
                                 if (record.event_id == event_id(0))
                                     throw std::runtime_error("half of it is committed");
                             });
    EXPECT_TRUE(scene.drained(hostile.options.consumer));
    consumer.finish();
    for (const Record &letter : scene.dead_letters(hostile.statements.size()))
        EXPECT_NE(letter.header("dlq_error").value_or("").find("committed or prepared"),
                  std::string::npos)
            << letter.header("dlq_error").value_or("");
    EXPECT_EQ(scene.events(), 7); // with the three that the handler committed
    scene.db.exec("rollback prepared '" + scene.database.name() + "'");
}

TEST(Transaction, WhatAHandlerLeavesInItsSessionIsGoneForTheNextRecord)
{
    Scene scene;
    const std::string role = scene.database.name() + "_nobody";
    scene.db.exec("create role " + role + "; grant all on effects to " + role);
    Statements hostile(
        {"set search_path = pg_temp", "set default_transaction_isolation = serializable",
         "set default_transaction_read_only = on", "set role " + role,
         "set session authorization " + role, "set client_encoding = latin1",
         "set session_replication_role = replica", "set statement_timeout = '1s'", "listen ours",
         "declare c cursor with hold for select generate_series(1, 10)",
         "select pg_advisory_lock(42)", "select set_config('timezone', 'Asia/Tokyo', false)",
         "set outbox.serialize_keys = on"},
        scene.options());
    hostile.write(scene);
    std::vector<std::string> states;
    std::atomic<int> faults{0};
    RunningConsumer consumer(
        hostile.options,
        [&](PGconn *transaction, const outbox::Record &record)
        {
            if (record.value->empty())
            {
                PGresult *result = PQexec(
                    transaction,
                    "select concat_ws('|', current_user = session_user,"
                    " (select string_agg(name || '=' || setting, ',') from pg_settings where source"
                    " = 'session' and name not in ('outbox.refuse_commit', 'application_name')),"
                    " (select count(*) from pg_listening_channels()),"
                    " (select count(*) from pg_cursors where is_holdable),"
                    " (select count(*) from pg_locks where locktype = 'advisory' and objid = 42),"
                    " session_user)");
                states.emplace_back(PQntuples(result) == 1 ? PQgetvalue(result, 0, 0) : "failed");
                PQclear(result);
            }
            effect_then_statement(transaction, record);
            faults += PQtransactionStatus(transaction) != PQTRANS_INTRANS;
        });
    EXPECT_TRUE(scene.drained(hostile.options.consumer));
    consumer.finish();
    EXPECT_EQ(faults, 0);
    EXPECT_EQ(scene.effects(), static_cast<int>(2 * hostile.statements.size()));
    ASSERT_EQ(states.size(), hostile.statements.size());
    for (size_t i = 0; i < states.size(); ++i)
        EXPECT_EQ(states[i], states[0]) << hostile.statements[i];
    EXPECT_EQ(states[0].substr(0, 8), "t|0|0|0|");
    scene.db.exec("drop owned by " + role + "; drop role " + role);
}

TEST(Transaction, AConnectionThatIsLeftInAnOddModeFailsItsRecordOnly)
{
    Scene scene;
    const std::vector<std::pair<std::string, std::function<void(PGconn *)>>> ways = {
        {"pipeline", [](PGconn *c) { PQenterPipelineMode(c); }},
        {"copy in", [](PGconn *c) { run_loosely(c, "copy effects from stdin"); }},
        {"copy out", [](PGconn *c) { run_loosely(c, "copy effects to stdout"); }},
        {"unread", [](PGconn *c) { PQsendQuery(c, "select pg_sleep(0)"); }},
        {"unread end", [](PGconn *c) { PQsendQuery(c, "rollback and chain"); }},
        {"single row",
         [](PGconn *c)
         {
             PQsendQuery(c, "select generate_series(1, 3)");
             PQsetSingleRowMode(c);
             PQclear(PQgetResult(c));
         }},
        {"finished", [](PGconn *c) { PQfinish(c); }},
        {"reset", [](PGconn *c) { PQreset(c); }},
        {"reset, begun", [](PGconn *c)
         {
             PQreset(c);
             run_loosely(c, "begin");
         }}};
    int number = 0;
    for (const auto &[name, way] : ways)
        for (const std::string &value : {name, std::string()})
            scene.writer.send(scene.topic, "k", value, event_id(number++), {}, 0);
    // This one is no fault at all.
    scene.writer.write(scene.topic, "k", "nonblocking", event_id(number), {}, 0);
    outbox::ConsumerOptions options = scene.options();
    options.max_attempts = 2;
    RunningConsumer consumer(options,
                             [&](PGconn *transaction, const outbox::Record &record)
                             {
                                 insert_effect(transaction, record);
                                 for (const auto &[name, way] : ways)
                                     if (record.value == name)
                                         way(transaction);
                                 if (record.value == "nonblocking")
                                     PQsetnonblocking(transaction, 1);
                             });
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    EXPECT_EQ(scene.effects(), static_cast<int>(ways.size()) + 1);
    EXPECT_EQ(scene.events(), static_cast<int>(ways.size()) + 1);
    EXPECT_EQ(scene.dead_letters(ways.size()).size(), ways.size());
}

TEST(Transaction, SavepointsAreTheHandlersToUse)
{
    Scene scene;
    scene.writer.write(scene.topic, "k", "{}", event_id(1));
    const outbox::ConsumerOptions options = scene.options();
    RunningConsumer consumer(options,
                             [](PGconn *transaction, const outbox::Record &record)
                             {
                                 run_sql(transaction, "savepoint a");
                                 run_loosely(transaction, "select 1/0");
                                 run_sql(transaction, "rollback to a");
                                 insert_effect(transaction, record);
                                 run_sql(transaction, "release a");
                             });
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    EXPECT_EQ(scene.effects(), 1);
    EXPECT_FALSE(consumer.logged("attempt"));
}

namespace
{

// Until the server has ended the session.
void
idle_for_too_long(PGconn *transaction)
{
    run_sql(transaction, "set local idle_in_transaction_session_timeout = '150ms'");
    pollfd socket = {PQsocket(transaction), POLLIN, 0};
    EXPECT_EQ(poll(&socket, 1, 60000), 1);
}

} // namespace

// The server ends such a transaction with the session; whose fault that is, its SQLSTATE tells.
TEST(Transaction, AHandlerThatIdlesForLongerThanTheServerAllowsIsItsRecordsFailure)
{
    for (const auto policy : {outbox::OffsetPolicy::kafka, outbox::OffsetPolicy::postgres})
    {
        Scene scene;
        scene.writer.send(scene.topic, "k", "slow", event_id(1), {}, 0);
        scene.writer.send(scene.topic, "k", "", event_id(2), {}, 0);
        scene.writer.flush();
        outbox::ConsumerOptions options = scene.options();
        options.max_attempts = 2;
        options.offsets = policy;
        options.batch = policy == outbox::OffsetPolicy::kafka ? 2 : 1;
        RunningConsumer consumer(options,
                                 [](PGconn *transaction, const outbox::Record &record)
                                 {
                                     insert_effect(transaction, record);
                                     if (record.value == "slow")
                                         idle_for_too_long(transaction);
                                 });
        EXPECT_TRUE(scene.drained(options.consumer));
        consumer.finish();
        EXPECT_EQ(scene.effects(), 1);
        const std::vector<Record> letters = scene.dead_letters(1);
        ASSERT_EQ(letters.size(), 1U);
        EXPECT_NE(letters[0].header("dlq_error").value_or("").find("idle-in-transaction timeout"),
                  std::string::npos)
            << letters[0].header("dlq_error").value_or("");
    }
}
