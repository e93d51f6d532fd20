// What the handler of one record leaves in the transaction, and in its session, for the next record
// and for the consumer itself, whether they share a transaction or not.
#include <map>
#include <random>

#include "harness.h"
#include "outbox/idempotent_request.h"
#include "support/seed.h"

using namespace outbox::test;

namespace
{

constexpr int kRecords = 100;

// All of these leave the transaction as it is and the effect in it. SELF is the record's place as
// outbox.record_offset() takes it.
const std::vector<std::string> kLegacies = with_other_settings(
    {"select 1", "select set_config('timezone', 'Asia/Tokyo', false)",
     "set local statement_timeout = '1min'", "reset all", "declare c cursor for select 1",
     "select pg_advisory_lock(42)", "select outbox.record_offset(SELF)", "savepoint work",
     "savepoint work; savepoint other; release other", "savepoint outbox_handler",
     "set local parallel_setup_cost = 0; set local parallel_tuple_cost = 0;"
     " set local min_parallel_table_scan_size = 0; select count(*) from pg_class"});

// These too, but then the records of the batch are done one by one.
const std::vector<std::string> kSeparating = {"set transaction read only",
                                              "set constraints all deferred"};

struct Case
{
    size_t batch;
    outbox::OffsetPolicy offsets;
};

// What a handler finds.
std::string
state_of(PGconn *transaction)
{
    const std::unique_ptr<PGresult, decltype(&PQclear)> result(
        PQexec(transaction,
               "select concat_ws('|', current_user = session_user, session_user,"
               " current_setting('transaction_read_only'), current_schemas(true)::text,"
               " nullif(current_setting('app.tenant', true), ''), current_setting('timezone'),"
               " current_setting('statement_timeout'),"
               " current_setting('min_parallel_table_scan_size'),"
               " (select count(*) from pg_cursors),"
               " (select count(*) from pg_locks where locktype = 'advisory' and objid = 42))"),
        &PQclear);
    return PQntuples(result.get()) == 1 ? PQgetvalue(result.get(), 0, 0)
                                        : PQresultErrorMessage(result.get());
}

// Whether a savepoint of another handler can be rolled back to.
bool
finds_savepoint(PGconn *transaction)
{
    run_sql(transaction, "savepoint probe");
    if (code_of([&] { run_sql(transaction, "rollback to savepoint work"); }).empty())
        return true;
    run_sql(transaction, "rollback to savepoint probe; release savepoint probe");
    return false;
}

void
expect_each_alone(unsigned seed, const Case &run)
{
    std::mt19937 random(seed);
    Scene scene;
    const std::string role = scene.database.name() + "_nobody";
    scene.db.exec("create role " + role);
    for (int i = 0; i < kRecords; ++i)
    {
        const auto &texts = random() % 25 == 0 ? kSeparating : kLegacies;
        scene.writer.send(scene.topic, "k", texts[random() % texts.size()], event_id(i), {}, 0);
    }
    scene.writer.flush();
    outbox::ConsumerOptions options = scene.options();
    options.batch = run.batch;
    options.offsets = run.offsets;
    options.max_attempts = 1; // any failure is a dead letter, or the end
    std::map<std::string, int> states;
    int found = 0;
    RunningConsumer consumer(options,
                             [&](PGconn *transaction, const outbox::Record &record)
                             {
                                 ++states[state_of(transaction)];
                                 insert_effect(transaction, record);
                                 if (record.offset % 7 == 6)
                                     found += finds_savepoint(transaction);
                                 std::string legacy = *record.value;
                                 replace(legacy, "ROLE", role);
                                 replace(legacy, "SELF",
                                         "'" + options.consumer + "', '" + record.topic + "', 0, " +
                                             std::to_string(record.offset + 1));
                                 run_sql(transaction, legacy);
                             });
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    SCOPED_TRACE("seed " + std::to_string(seed) + " batch " + std::to_string(run.batch));
    EXPECT_EQ(found, 0);
    EXPECT_EQ(scene.effects(), kRecords);
    EXPECT_EQ(scene.events(), kRecords);
    EXPECT_EQ(scene.db.value("select count(*) from outbox.processed_events"),
              std::to_string(kRecords));
    EXPECT_EQ(records_in(kafka().bootstrap(), scene.topic + ".dlq"), 0);
    EXPECT_EQ(states.size(), 1U);
    for (const auto &[state, count] : states)
        if (states.size() > 1)
            ADD_FAILURE() << count << " handlers found " << state;
    scene.db.exec("drop role " + role);
}

} // namespace

TEST(Batch, EachHandlerFindsTheSessionAsIfItWereAloneAndSoDoesTheConsumer)
{
    const unsigned seed = choose_seed();
    for (const Case &run :
         {Case{1, outbox::OffsetPolicy::postgres}, Case{8, outbox::OffsetPolicy::kafka},
          Case{20, outbox::OffsetPolicy::postgres}})
        expect_each_alone(seed, run);
}

// One that has refused its record, as it believes, takes back nobody else's effect.
TEST(Batch, ARollbackToASavepointThatIsNotThereFailsItsRecordOnly)
{
    Scene scene;
    for (int i = 0; i < 6; ++i)
        scene.writer.send(scene.topic, "k", i % 2 == 1 ? "invalid" : "", event_id(i), {}, 0);
    scene.writer.flush();
    outbox::ConsumerOptions options = scene.options();
    options.batch = 10;
    options.max_attempts = 2;
    RunningConsumer consumer(
        options,
        [](PGconn *transaction, const outbox::Record &record)
        {
            if (record.value == "invalid")
                PQclear(PQexec(transaction, "rollback to savepoint work"));
            else
                run_sql(transaction, "savepoint work");
            PQclear(PQexec(transaction,
                           ("insert into effects values ('" + record.event_id + "')").c_str()));
        });
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    EXPECT_EQ(scene.effects(), 3);
    EXPECT_EQ(scene.db.value("select count(*) from outbox.processed_events"), "3");
    EXPECT_EQ(scene.dead_letters(3).size(), 3U);
}

// A function of the application may do it where no statement of the handler shows it. While checks
// are deferred a handler would not notice that its row is there already.
TEST(Batch, ConstraintsThatAFunctionHasDeferredAreCheckedAtOnceForTheNextHandler)
{
    Scene scene;
    scene.db.exec("create table accounts (n int unique deferrable);"
                  " insert into accounts values (1);"
                  " create function defer_all() returns void language plpgsql as"
                  " 'begin set constraints all deferred; end'");
    for (int i = 0; i < 6; ++i)
        scene.writer.send(scene.topic, "k", i % 3 == 2 ? "defer" : "", event_id(i), {}, 0);
    scene.writer.flush();
    outbox::ConsumerOptions options = scene.options();
    options.batch = 10;
    options.max_attempts = 1;
    int unnoticed = 0;
    RunningConsumer consumer(
        options,
        [&](PGconn *transaction, const outbox::Record &record)
        {
            insert_effect(transaction, record);
            if (record.value == "defer")
                run_sql(transaction, "select defer_all()");
            if (record.offset != 3)
                return;
            unnoticed +=
                code_of([&] { run_sql(transaction, "insert into accounts values (1)"); }).empty();
            throw std::runtime_error("refused");
        });
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    EXPECT_EQ(unnoticed, 0);
    EXPECT_EQ(scene.effects(), 5);
    EXPECT_EQ(scene.events(), 5);
    EXPECT_EQ(scene.dead_letters(1).size(), 1U);
    EXPECT_TRUE(consumer.logged("cannot be reset: constraints"));
}

// All of a batch is in memory, and its transaction lasts as long as all of its handlers.
TEST(Batch, LargeRecordsMakeItSmaller)
{
    constexpr int kLarge = 40;
    Scene scene;
    const std::string value(900000, 'v');
    for (int i = 0; i < kLarge; ++i)
        scene.writer.send(scene.topic, "k", value, event_id(i), {}, 0);
    scene.writer.flush();
    outbox::ConsumerOptions options = scene.options();
    options.batch = 1000;
    options.kafka_config["fetch.message.max.bytes"] = "40000000"; // all at once
    std::map<std::string, int> transactions;
    RunningConsumer consumer(
        options,
        [&](PGconn *transaction, const outbox::Record &record)
        {
            insert_effect(transaction, record);
            ++transactions[run_sql(transaction, "select pg_current_xact_id()::text")];
        });
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    EXPECT_EQ(scene.events(), kLarge);
    for (const auto &[number, count] : transactions)
        EXPECT_LE(count, 19) << "records of 900 kB in one transaction"; // 16 MiB, and one more
}

TEST(Batch, NoHandlerSeesTheSequencesOfAnother)
{
    for (const size_t batch : {1, 3})
    {
        Scene scene;
        scene.db.exec("create sequence numbers");
        for (int i = 0; i < 6; ++i)
            scene.writer.send(scene.topic, "k", "", event_id(i), {}, 0);
        scene.writer.flush();
        outbox::ConsumerOptions options = scene.options();
        options.batch = batch;
        std::vector<std::string> codes;
        RunningConsumer consumer(
            options,
            [&](PGconn *transaction, const outbox::Record &record)
            {
                run_sql(transaction, "savepoint s");
                codes.push_back(code_of([&] { run_sql(transaction, "select lastval()"); }));
                run_sql(transaction, "rollback to s; release s; select nextval('numbers')");
                insert_effect(transaction, record);
            });
        EXPECT_TRUE(scene.drained(options.consumer));
        consumer.finish();
        EXPECT_GE(codes.size(), 6U);
        for (const std::string &code : codes)
            EXPECT_EQ(code, "55000") << "of lastval() before nextval()";
    }
}

// Whose savepoints are its own, and are released with it: that of another record's handler, or of
// the consumer, has nothing to do with an answer.
TEST(Batch, ARollbackToASavepointIsNoReasonToDoubtTheAnswersOfOtherRecords)
{
    for (const std::size_t batch : {1, 10})
    {
        Scene scene;
        for (int i = 0; i < 20; ++i)
            scene.writer.send(scene.topic, "k", "", event_id(i), {}, 0);
        scene.writer.flush();
        outbox::ConsumerOptions options = scene.options();
        options.batch = batch;
        testing::internal::CaptureStderr();
        RunningConsumer consumer(options,
                                 [&](PGconn *transaction, const outbox::Record &record)
                                 {
                                     outbox::IdempotentRequest request(transaction, "shop",
                                                                       record.event_id,
                                                                       std::string(32, 'x'));
                                     for (const char *name : {"a", "b", "c"})
                                         run_sql(transaction, std::string("savepoint ") + name);
                                     PQclear(PQexec(transaction, "select 1/0"));
                                     run_sql(transaction, "rollback to c");
                                     insert_effect(transaction, record);
                                     request.complete({});
                                 });
        EXPECT_TRUE(scene.drained(options.consumer));
        consumer.finish();
        EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
        EXPECT_EQ(scene.effects(), 20);
        EXPECT_EQ(scene.db.value("select count(completed_at) from outbox.idempotency_keys"), "20");
    }
}
