// Whose fault a failure is, and what becomes of a stop while something else happens.
#include <atomic>
#include <map>

#include <dirent.h>
#include <sys/socket.h>

#include "harness.h"
#include "support/fake_server.h"

using namespace outbox::test;

namespace
{

// A transactional store that fails in each of these ways before it does what it should.
class FailingStore : public outbox::DedupStore
{
public:
    explicit FailingStore(std::vector<std::function<void()>> ways) : ways_(std::move(ways)) {}
    bool transactional() const noexcept override { return true; }
    outbox::Claim claim(PGconn *, const std::string &, const std::string &) override
    {
        if (next_ < ways_.size())
            ways_[next_++]();
        return outbox::Claim::first;
    }
    bool done() const { return next_ == ways_.size(); }

private:
    const std::vector<std::function<void()>> ways_;
    std::atomic<size_t> next_{0};
};

int
open_descriptors()
{
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(directory) != nullptr)
        ++count;
    closedir(directory);
    return count;
}

} // namespace

TEST(Blame, WhatAStoreThrowsIsNoFailureOfTheRecord)
{
    const auto store = std::make_shared<FailingStore>(std::vector<std::function<void()>>{
        [] { throw outbox::Error("of the store", "XX000"); },
        [] { throw outbox::StoreError("of the store", "08006"); },
        [] { throw std::runtime_error("of the store"); }, [] { throw 7; }});
    Scene scene;
    scene.writer.write(scene.topic, "k", "{}", event_id(1));
    outbox::ConsumerOptions options = scene.options();
    options.max_attempts = 1; // a counted failure would make it a dead letter
    options.store = store;
    RunningConsumer consumer(options, &insert_effect);
    EXPECT_TRUE(scene.reaches(1));
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    EXPECT_TRUE(store->done());
    EXPECT_EQ(scene.effects(), 1);
}

TEST(Blame, AnyExceptionAfterALostConnectionIsTheConnections)
{
    Scene scene;
    scene.writer.write(scene.topic, "k", "{}", event_id(1));
    outbox::ConsumerOptions options = scene.options();
    options.max_attempts = 1;
    std::atomic<int> calls{0};
    RunningConsumer consumer(options,
                             [&](PGconn *transaction, const outbox::Record &record)
                             {
                                 insert_effect(transaction, record);
                                 if (++calls > 3)
                                     return;
                                 ::shutdown(PQsocket(transaction), SHUT_RDWR);
                                 PQclear(PQexec(transaction, "select 1"));
                                 throw calls.load();
                             });
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    EXPECT_EQ(calls, 4);
    EXPECT_EQ(scene.effects(), 1);
}

TEST(Blame, ANameThatTheDatabaseDoesNotTakeIsRefusedAtOnce)
{
    Scene scene;
    outbox::ConsumerOptions options = scene.options();
    const auto make = [&](const std::string &name)
    {
        options.consumer = name;
        return code_of([&] { const outbox::Consumer consumer(options, &insert_effect); });
    };
    EXPECT_EQ(make(std::string(256, 'x')), "22023");
    EXPECT_EQ(make(std::string(255, 'x')), "");
    std::string umlauts;
    for (int i = 0; i < 255; ++i)
        umlauts += "\xc3\xa4";
    EXPECT_EQ(make(umlauts), "");
    // One that is not text, as the server finds out, is nobody's record's fault either.
    scene.writer.write(scene.topic, "k", "{}", event_id(1));
    options = scene.options();
    options.consumer += "\xff";
    options.max_attempts = 1;
    RunningConsumer consumer(options, &insert_effect);
    const std::exception_ptr failure = consumer.join();
    ASSERT_TRUE(failure);
    EXPECT_EQ(code_of([&] { std::rethrow_exception(failure); }), "22021");
}

TEST(Blame, ARunThatCannotBeginLeaksNothing)
{
    Scene scene;
    outbox::ConsumerOptions options = scene.options();
    // librdkafka finds out only when it makes the client.
    options.kafka_config["ssl.ca.location"] = "/nonexistent/ca.pem";
    options.kafka_config["security.protocol"] = "ssl";
    options.log = [](outbox::LogLevel, const std::string &) {};
    outbox::Consumer consumer(options, &insert_effect);
    EXPECT_NE(code_of([&] { consumer.run(); }), "");
    const int before = open_descriptors();
    for (int i = 0; i < 20; ++i)
        EXPECT_NE(code_of([&] { consumer.run(); }), "");
    EXPECT_EQ(open_descriptors(), before);
}

TEST(Blame, AStopWhileRunLeavesWithAnExceptionHoldsForTheNextRun)
{
    Scene scene;
    scene.writer.write(scene.topic, "k", "{}", event_id(1));
    outbox::ConsumerOptions options = scene.options();
    options.max_attempts = 1;
    options.dead_letter_timeout = Milliseconds(200); // for nobody creates that topic
    options.dead_letter_suffix = ".missing";
    options.kafka_config["allow.auto.create.topics"] = "false";
    outbox::Consumer *self = nullptr;
    options.log = [&](outbox::LogLevel, const std::string &line)
    {
        if (line.find("revoked") != std::string::npos)
            self->stop();
    };
    outbox::Consumer consumer(options, [](PGconn *, const outbox::Record &)
                              { throw std::runtime_error("and no dead letter"); });
    self = &consumer;
    EXPECT_NE(code_of([&] { consumer.run(); }), "");
    EXPECT_EQ(code_of([&] { consumer.run(); }), "") << "the stop was lost";
}

TEST(Blame, StopWithOffsetsInPostgresKeepsWhatTheHandlerDid)
{
    expect_stop_keeps_the_effect(outbox::OffsetPolicy::postgres);
}

// A full disk, no memory, no connection left for dblink: whoever comes next would fail as well.
TEST(Blame, WhatTheServerLacksIsNotTheRecordsFault)
{
    Scene scene;
    const std::vector<std::string> codes = {"53100", "53200", "53300", "58030", "40P01",
                                            // these are the record's
                                            "58P01", "58P02", "53400", "54000", "XX000"};
    constexpr int kOfTheServer = 5;
    for (size_t i = 0; i < codes.size(); ++i)
        scene.writer.send(scene.topic, "k", codes[i], event_id(static_cast<int>(i)), {}, 0);
    scene.writer.flush();
    outbox::ConsumerOptions options = scene.options();
    options.max_attempts = 2;
    std::map<std::string, int> calls;
    RunningConsumer consumer(options,
                             [&](PGconn *transaction, const outbox::Record &record)
                             {
                                 insert_effect(transaction, record);
                                 if (++calls[*record.value] <= 3)
                                     run_sql(transaction,
                                             "do $$ begin raise exception 'could not extend file'"
                                             " using errcode = '" +
                                                 *record.value + "'; end $$");
                             });
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    EXPECT_EQ(scene.effects(), kOfTheServer);
    for (size_t i = 0; i < codes.size(); ++i)
        EXPECT_EQ(calls[codes[i]], i < kOfTheServer ? 4 : 2) << codes[i];
}

TEST(Blame, AnExceptionThatSaysNothingIsTheRecordsAndALogLineIsOneLine)
{
    struct Silent : std::exception
    {
        const char *what() const noexcept override { return nullptr; }
    };
    Scene scene;
    scene.writer.send(scene.topic, "k", "silent", event_id(1), {}, 0);
    scene.writer.send(scene.topic, "k", "lines", event_id(2), {}, 0);
    scene.writer.flush();
    outbox::ConsumerOptions options = scene.options();
    options.max_attempts = 1;
    RunningConsumer consumer(options,
                             [](PGconn *transaction, const outbox::Record &record)
                             {
                                 if (record.value == "silent")
                                     throw Silent();
                                 run_sql(transaction, "select 1,\n  nonsense,\n 2");
                             });
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    EXPECT_TRUE(consumer.logged("whose what() is null"));
    EXPECT_TRUE(consumer.logged("\"nonsense\" does not exist LINE 2:   nonsense, ^"));
    const std::vector<Record> letters = scene.dead_letters(2);
    ASSERT_EQ(letters.size(), 2U);
    EXPECT_NE(letters[0].header("dlq_error").value_or("").find("Silent"), std::string::npos);
}

// The objects that they point to may be gone when the next notice comes.
TEST(Blame, ANoticeProcessorOfAHandlerEndsWithIt)
{
    Scene scene;
    for (int i = 0; i < 4; ++i)
        scene.writer.send(scene.topic, "k", i % 2 == 0 ? "set" : "", event_id(i), {}, 0);
    scene.writer.flush();
    const outbox::ConsumerOptions options = scene.options();
    std::atomic<int> calls{0};
    std::atomic<int> strays{0};
    std::string errors;
    RunningConsumer consumer(
        options,
        [&](PGconn *transaction, const outbox::Record &record)
        {
            if (record.value == "set")
            {
                const auto count = [](void *to, const char *)
                { ++*static_cast<std::atomic<int> *>(to); };
                const auto receive = [](void *to, const PGresult *)
                { ++*static_cast<std::atomic<int> *>(to); };
                (void) PQsetNoticeProcessor(transaction, count, &strays);
                if (record.event_id == event_id(2))
                    (void) PQsetNoticeReceiver(transaction, receive, &strays);
                (void) PQsetErrorVerbosity(transaction, PQERRORS_SQLSTATE);
                if (++calls < 3)
                    throw std::runtime_error("even then");
            }
            else
            {
                PQclear(PQexec(transaction, "do $$ begin raise warning 'for nobody'; end $$"));
                PQclear(PQexec(transaction, "savepoint s; select 1/0"));
                errors += PQerrorMessage(transaction);
                run_sql(transaction, "rollback to s");
            }
            insert_effect(transaction, record);
        });
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    EXPECT_EQ(strays, 0);
    EXPECT_EQ(errors, "ERROR:  division by zero\nERROR:  division by zero\n");
}

// Of handlers, and of the server while it lets the consumer in; only a handler of notices gets its.
TEST(Blame, WhatTheServerSaysBesideItsAnswersGoesToTheLog)
{
    Scene scene;
    for (int i = 0; i < 2; ++i)
        scene.writer.send(scene.topic, "k", "", event_id(i), {}, 0);
    scene.writer.flush();
    testing::internal::CaptureStderr();
    std::string own;
    {
        const outbox::ConsumerOptions options = scene.options();
        RunningConsumer consumer(
            options,
            [&](PGconn *transaction, const outbox::Record &record)
            {
                if (record.offset == 0)
                    (void) PQsetNoticeProcessor(
                        transaction,
                        [](void *to, const char *text) { *static_cast<std::string *>(to) += text; },
                        &own);
                PQclear(PQexec(transaction, "do $$ begin raise warning E'mind\n\tthe gap';"
                                            " raise warning '%', repeat('x', 100000); end $$"));
                insert_effect(transaction, record);
            });
        EXPECT_TRUE(scene.drained(options.consumer));
        consumer.finish();
        EXPECT_TRUE(consumer.logged("PostgreSQL: WARNING:  mind the gap")) << consumer.log();
        EXPECT_LT(consumer.log().size(), 20000U);
        EXPECT_NE(own.find("the gap"), std::string::npos);
    }
    const FakeServer server(
        [](const Conversation &client)
        {
            if (!client.startup().empty())
                (void) client.say(kLetIn + report("WARNING", "01000", "who are you", 'N') +
                                  report("FATAL", "28000", "no"));
        });
    outbox::ConsumerOptions options = scene.options();
    options.conninfo = "host=127.0.0.1 sslmode=disable port=" + std::to_string(server.port());
    scene.writer.write(scene.topic, "k", "", event_id(3));
    RunningConsumer consumer(options, &insert_effect);
    EXPECT_TRUE(wait_until(kSoon, [&] { return consumer.logged("WARNING:  who are you"); }))
        << consumer.log();
    consumer.finish();
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Blame, NoticesAreCutOffAtACharacterOfTheirEncoding)
{
    for (const char *encoding : {"UTF8", "SJIS", "EUC_JP"})
    {
        Scene scene;
        scene.writer.write(scene.topic, "k", "", event_id(1));
        outbox::ConsumerOptions options = scene.options();
        options.conninfo += std::string(" client_encoding=") + encoding;
        RunningConsumer consumer(
            options,
            [&](PGconn *transaction, const outbox::Record &record)
            {
                for (const char *before : {"+", "x+", "xx+"})
                    PQclear(PQexec(transaction, (std::string("do $$ begin raise warning '%', '") +
                                                 before + "' || repeat(chr(12354), 10000); end $$")
                                                    .c_str()));
                insert_effect(transaction, record);
            });
        EXPECT_TRUE(scene.drained(options.consumer));
        consumer.finish();
        const std::string log = consumer.log();
        int cut = 0;
        for (std::size_t end = 0; (end = log.find("... (cut off", end)) != std::string::npos; ++end)
        {
            ++cut;
            EXPECT_EQ((end - log.rfind('+', end) - 1) % (encoding[0] == 'U' ? 3 : 2), 0U)
                << encoding;
        }
        EXPECT_EQ(cut, 3) << log.substr(0, 1000);
    }
}
