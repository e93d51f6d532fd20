// Inbound requests that come twice.
#include "harness.h"
#include "outbox/idempotent_request.h"

using namespace outbox::test;
using outbox::IdempotentRequest;
using Outcome = IdempotentRequest::Outcome;

namespace
{

using Connection = std::unique_ptr<PGconn, decltype(&PQfinish)>;

struct RequestScene
{
    RequestScene() : database(cluster()), connection(connect()), other(connect())
    {
        run_sql(connection.get(), "create table payments (id int)");
        hash = outbox::request_hash(connection.get(), "POST", "/payments", "{\"amount\": 5}");
    }
    Connection connect() const
    {
        return Connection(PQconnectdb(cluster().conninfo(database.name()).c_str()), &PQfinish);
    }
    // What another caller with the key gets.
    Outcome ask(const std::string &key)
    {
        run_sql(other.get(), "begin");
        const Outcome outcome = IdempotentRequest(other.get(), "shop", key, hash).outcome();
        run_sql(other.get(), "rollback");
        return outcome;
    }
    std::string payments() { return database.connect().value("select count(*) from payments"); }

    TestDatabase database;
    Connection connection;
    Connection other;
    std::string hash;
};

} // namespace

TEST(IdempotentRequest, TheSecondOneGetsTheAnswerOfTheFirst)
{
    RequestScene scene;
    outbox::Response response;
    response.status = 201;
    response.body = std::string("{\"id\": 1}\0\xff", 11);
    response.content_type = "application/json";
    response.headers = {{"Location", "/payments/1"}, {"X-Quote", "\"a\\b\"\n"}};
    run_sql(scene.connection.get(), "begin");
    {
        IdempotentRequest request(scene.connection.get(), "shop", "k1", scene.hash);
        EXPECT_EQ(request.outcome(), Outcome::started);
        EXPECT_TRUE(request.to_be_done());
        EXPECT_EQ(scene.ask("k1"), Outcome::in_progress);
        run_sql(scene.connection.get(), "insert into payments values (1)");
        request.complete(response);
        EXPECT_FALSE(request.to_be_done());
        EXPECT_EQ(code_of([&] { request.complete(response); }), "55000");
    }
    run_sql(scene.connection.get(), "commit");

    run_sql(scene.connection.get(), "begin");
    const IdempotentRequest again(scene.connection.get(), "shop", "k1", scene.hash);
    EXPECT_EQ(again.outcome(), Outcome::replay);
    EXPECT_FALSE(again.to_be_done());
    EXPECT_EQ(again.response().status, 201);
    EXPECT_EQ(again.response().body, response.body);
    EXPECT_EQ(again.response().content_type, "application/json");
    EXPECT_EQ(again.response().headers, response.headers);
    const std::string other_hash =
        outbox::request_hash(scene.connection.get(), "POST", "/payments", "{\"amount\": 6}");
    EXPECT_EQ(IdempotentRequest(scene.connection.get(), "shop", "k1", other_hash).outcome(),
              Outcome::mismatch);
    run_sql(scene.connection.get(), "commit");
}

TEST(IdempotentRequest, AnExceptionReleasesTheKeyEvenIfTheTransactionIsCommitted)
{
    RequestScene scene;
    run_sql(scene.connection.get(), "begin");
    try
    {
        const IdempotentRequest request(scene.connection.get(), "shop", "k1", scene.hash);
        throw std::runtime_error("the handler's");
    }
    catch (const std::runtime_error &)
    {
    }
    run_sql(scene.connection.get(), "commit");
    EXPECT_EQ(scene.ask("k1"), Outcome::started);

    // In a transaction that has failed the rollback takes it back.
    run_sql(scene.connection.get(), "begin");
    {
        const IdempotentRequest request(scene.connection.get(), "shop", "k1", scene.hash);
        EXPECT_EQ(code_of([&] { run_sql(scene.connection.get(), "select 1/0"); }), "22012");
    }
    run_sql(scene.connection.get(), "rollback");
    EXPECT_EQ(scene.ask("k1"), Outcome::started);
}

TEST(IdempotentRequest, WorkThatWasCommittedWithoutAnAnswerIsNotDoneAgain)
{
    RequestScene scene;
    PGconn *connection = scene.connection.get();
    for (const bool explicitly : {false, true})
    {
        const std::string key = explicitly ? "k1" : "k2";
        run_sql(connection, "begin");
        auto request = std::make_unique<IdempotentRequest>(connection, "shop", key, scene.hash);
        run_sql(connection, "insert into payments values (1)");
        run_sql(connection, "commit"); // complete() was forgotten
        run_sql(connection, "begin");
        if (explicitly)
        {
            EXPECT_EQ(code_of([&] { request->release(); }), "25000");
            EXPECT_EQ(PQtransactionStatus(connection), PQTRANS_INTRANS);
        }
        testing::internal::CaptureStderr();
        request.reset();
        EXPECT_NE(testing::internal::GetCapturedStderr().find("committed without an answer"),
                  std::string::npos);
        run_sql(connection, "commit");
        EXPECT_EQ(scene.ask(key), Outcome::replay);
    }
    // An answer that comes late is an answer.
    run_sql(connection, "begin");
    IdempotentRequest late(connection, "shop", "k3", scene.hash);
    run_sql(connection, "commit");
    late.complete({201, "late", "", {}});
    run_sql(connection, "begin");
    EXPECT_EQ(IdempotentRequest(connection, "shop", "k3", scene.hash).response().body, "late");
    run_sql(connection, "rollback");
}

TEST(IdempotentRequest, TheDestructorLeavesTheTransactionOfTheCallerAsItIs)
{
    RequestScene scene;
    PGconn *connection = scene.connection.get();
    run_sql(connection, "begin");
    run_sql(connection, "insert into payments values (1)");
    run_sql(connection, "savepoint before");
    auto request = std::make_unique<IdempotentRequest>(connection, "shop", "k1", scene.hash);
    run_sql(connection, "rollback to before"); // takes the key along
    request.reset();
    EXPECT_EQ(PQtransactionStatus(connection), PQTRANS_INTRANS);
    run_sql(connection, "commit");
    EXPECT_EQ(scene.payments(), "1");
    // Of a transaction that was rolled back there is nothing to tell.
    run_sql(connection, "begin");
    request = std::make_unique<IdempotentRequest>(connection, "shop", "k2", scene.hash);
    run_sql(connection, "rollback");
    run_sql(connection, "begin");
    testing::internal::CaptureStderr();
    request.reset();
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    run_sql(connection, "commit");
    EXPECT_EQ(scene.ask("k2"), Outcome::started);
}

TEST(IdempotentRequest, AKeyOfTwoPhasesThatCannotBeReleasedIsToldOf)
{
    RequestScene scene;
    PGconn *connection = scene.connection.get();
    outbox::RequestOptions options;
    options.mode = outbox::RequestMode::two_phase;
    const auto attempt = [&](const std::string &key, const std::string &sql)
    {
        testing::internal::CaptureStderr();
        try
        {
            const IdempotentRequest request(connection, "shop", key, scene.hash, options);
            run_sql(connection, "begin");
            run_sql(connection, sql);
            throw std::runtime_error("the work's");
        }
        catch (const std::exception &)
        {
        }
        run_sql(connection, "rollback"); // too late
        return testing::internal::GetCapturedStderr();
    };
    EXPECT_NE(attempt("k1", "insert into payments values (1)").find("stays leased"),
              std::string::npos);
    EXPECT_NE(attempt("k2", "select 1/0").find("stays leased"), std::string::npos);
    EXPECT_EQ(scene.ask("k1"), Outcome::in_progress);
    // In the order of the manual nothing stays.
    testing::internal::CaptureStderr();
    try
    {
        const IdempotentRequest request(connection, "shop", "k3", scene.hash, options);
        struct Transaction
        {
            explicit Transaction(PGconn *of) : connection(of) { run_sql(of, "begin"); }
            ~Transaction() { PQclear(PQexec(connection, "rollback")); }
            PGconn *connection;
        } const transaction(connection);
        throw std::runtime_error("the work's");
    }
    catch (const std::exception &)
    {
    }
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(scene.ask("k3"), Outcome::started);
}

TEST(IdempotentRequest, RequestsHaveAHashInEveryDatabase)
{
    RequestScene scene;
    scene.database.connect().exec("drop database if exists ascii_requests");
    scene.database.connect().exec("create database ascii_requests template template0 encoding "
                                  "sql_ascii locale 'C'");
    {
        const Connection ascii(PQconnectdb(cluster().conninfo("ascii_requests").c_str()),
                               &PQfinish);
        run_sql(ascii.get(), "create extension outbox");
        EXPECT_EQ(outbox::request_hash(ascii.get(), "POST", "/k\xc3\xa4se", "x"),
                  outbox::request_hash(scene.connection.get(), "POST", "/k\xc3\xa4se", "x"));
        EXPECT_EQ(outbox::request_hash(ascii.get(), "POST", "/k\xe4se", "x").size(), 32U);
    }
    scene.database.connect().exec("drop database ascii_requests");
}

TEST(IdempotentRequest, TwoPhasesHoldTheKeyByALeaseThatAnExceptionReleases)
{
    RequestScene scene;
    outbox::RequestOptions options;
    options.mode = outbox::RequestMode::two_phase;
    const auto begin = [&](PGconn *connection)
    { return std::make_unique<IdempotentRequest>(connection, "shop", "k1", scene.hash, options); };

    auto request = begin(scene.connection.get());
    EXPECT_EQ(request->outcome(), Outcome::started);
    const auto second = begin(scene.other.get());
    EXPECT_EQ(second->outcome(), Outcome::in_progress);
    EXPECT_GT(second->retry_after(), Milliseconds(1000));
    EXPECT_LE(second->retry_after(), std::chrono::minutes(1));
    request.reset(); // as when an exception passes
    request = begin(scene.connection.get());
    EXPECT_EQ(request->outcome(), Outcome::started);
    request->complete({202, "later", "text/plain", {}});
    request.reset();
    EXPECT_EQ(begin(scene.connection.get())->outcome(), Outcome::replay);
    EXPECT_EQ(begin(scene.connection.get())->response().body, "later");
}

TEST(IdempotentRequest, AStaleOwnerCannotComplete)
{
    RequestScene scene;
    outbox::RequestOptions options;
    options.mode = outbox::RequestMode::two_phase;
    options.lease = Milliseconds(100);
    IdempotentRequest stale(scene.connection.get(), "shop", "k1", scene.hash, options);
    std::unique_ptr<IdempotentRequest> next;
    EXPECT_TRUE(wait_until(kSoon,
                           [&]
                           {
                               next = std::make_unique<IdempotentRequest>(
                                   scene.other.get(), "shop", "k1", scene.hash, options);
                               return next->outcome() == Outcome::taken_over;
                           }));
    EXPECT_EQ(code_of([&] { stale.complete({}); }), "55000");
    EXPECT_TRUE(next->to_be_done());
    next->complete({});
}

TEST(IdempotentRequest, BadInputIsRefusedAndChangesNothing)
{
    RequestScene scene;
    PGconn *connection = scene.connection.get();
    const auto make = [&](const std::string &scope, const std::string &key, const std::string &hash,
                          const outbox::RequestOptions &options = {})
    { return code_of([&] { IdempotentRequest(connection, scope, key, hash, options); }); };

    EXPECT_EQ(make("shop", "k", scene.hash), "25P01");
    outbox::RequestOptions two_phase;
    two_phase.mode = outbox::RequestMode::two_phase;
    run_sql(connection, "begin");
    EXPECT_EQ(make("shop", "k", scene.hash, two_phase), "25001");
    EXPECT_EQ(make(std::string("a\0b", 3), "k", scene.hash), "22023");
    EXPECT_EQ(make("shop", std::string(1, '\0'), scene.hash), "22023");
    EXPECT_EQ(PQtransactionStatus(connection), PQTRANS_INTRANS);
    outbox::RequestOptions no_ttl;
    no_ttl.ttl = Milliseconds(0);
    const std::vector<std::function<std::string()>> refused = {
        [&] { return make("", "k", scene.hash); }, [&] { return make("shop", "", scene.hash); },
        [&] { return make("shop", "k", "short"); },
        [&] { return make("shop", "k", scene.hash, no_ttl); }};
    for (const auto &refusal : refused)
    {
        EXPECT_EQ(refusal(), "22023");
        run_sql(connection, "rollback");
        run_sql(connection, "begin");
    }
    run_sql(connection, "rollback");
    EXPECT_EQ(code_of([&] { IdempotentRequest(nullptr, "shop", "k", scene.hash); }), "55000");
    EXPECT_EQ(scene.database.connect().value("select count(*) from outbox.idempotency_keys"), "0");
}

TEST(IdempotentRequest, AnAnswerOfTwoPhasesThatIsRolledBackGivesTheKeyBack)
{
    RequestScene scene;
    outbox::RequestOptions options;
    options.mode = outbox::RequestMode::two_phase;
    PGconn *connection = scene.connection.get();
    const auto attempt = [&](const std::string &end)
    {
        IdempotentRequest request(connection, "shop", "k", scene.hash, options);
        EXPECT_TRUE(request.to_be_done()) << end;
        run_sql(connection, "begin");
        request.complete({201, "x", "", {}});
        run_sql(connection, end);
    };
    attempt("rollback");
    attempt("rollback; begin; insert into payments values (1)"); // released within that one
    run_sql(connection, "commit");
    attempt("commit");
    const IdempotentRequest again(connection, "shop", "k", scene.hash, options);
    EXPECT_EQ(again.outcome(), Outcome::replay);
}

TEST(IdempotentRequest, ATimeThatPostgresCannotAddIsAUsageError)
{
    RequestScene scene;
    outbox::RequestOptions options;
    options.mode = outbox::RequestMode::two_phase;
    for (std::chrono::milliseconds outbox::RequestOptions::*time :
         {&outbox::RequestOptions::ttl, &outbox::RequestOptions::lease})
        for (const auto value : {Milliseconds::max(), Milliseconds::min(), Milliseconds(0)})
        {
            outbox::RequestOptions odd = options;
            odd.*time = value;
            EXPECT_EQ(
                code_of(
                    [&]
                    { IdempotentRequest(scene.connection.get(), "shop", "k", scene.hash, odd); }),
                "22023")
                << value.count();
        }
}

// The work elsewhere begins when the constructor returns.
TEST(IdempotentRequest, AKeyOfTwoPhasesIsOnDiskThoughCommitsAreAsynchronous)
{
    RequestScene scene;
    PGconn *connection = scene.connection.get();
    run_sql(connection, "set synchronous_commit = off");
    outbox::RequestOptions options;
    options.mode = outbox::RequestMode::two_phase;
    Db db = scene.database.connect();
    for (int i = 0; i < 5; ++i) // the server writes by itself, too, every 200 ms
    {
        const std::string before = db.value("select pg_current_wal_insert_lsn()");
        const IdempotentRequest request(connection, "shop", "k" + std::to_string(i), scene.hash,
                                        options);
        EXPECT_EQ(db.value("select pg_current_wal_flush_lsn() > '" + before + "'::pg_lsn"), "t");
    }
}

// The work elsewhere is done: a crash that forgot it would have it done again.
TEST(IdempotentRequest, ACompletionOfTwoPhasesIsOnDiskThoughCommitsAreAsynchronous)
{
    RequestScene scene;
    PGconn *connection = scene.connection.get();
    outbox::RequestOptions options;
    options.mode = outbox::RequestMode::two_phase;
    Db db = scene.database.connect();
    for (int i = 0; i < 5; ++i)
    {
        IdempotentRequest request(connection, "shop", "k" + std::to_string(i), scene.hash, options);
        run_sql(connection, "set synchronous_commit = off");
        const std::string before = db.value("select pg_current_wal_insert_lsn()");
        request.complete({});
        EXPECT_EQ(db.value("select pg_current_wal_flush_lsn() > '" + before + "'::pg_lsn"), "t");
        run_sql(connection, "reset synchronous_commit");
    }
}
