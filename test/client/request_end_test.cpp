// What becomes of the key of a request whose completion or release does not last.
#include <sstream>

#include "harness.h"
#include "outbox/idempotent_request.h"

using namespace outbox::test;
using outbox::IdempotentRequest;

namespace
{

using Connection = std::unique_ptr<PGconn, decltype(&PQfinish)>;

struct EndScene
{
    EndScene() : database(cluster()), db(database.connect()), connection(connect())
    {
        two_phase.mode = outbox::RequestMode::two_phase;
        two_phase.lease = std::chrono::minutes(10);
    }
    Connection connect() const
    {
        return Connection(PQconnectdb(cluster().conninfo(database.name()).c_str()), &PQfinish);
    }
    void run(const std::string &sql) const { run_sql(connection.get(), sql); }
    // One by one, as some fail.
    void run_all(const std::string &several) const
    {
        std::istringstream statements(several);
        for (std::string sql; std::getline(statements, sql, ';');)
            PQclear(PQexec(connection.get(), sql.c_str()));
    }
    std::unique_ptr<IdempotentRequest> begin(const outbox::RequestOptions &options)
    {
        return std::make_unique<IdempotentRequest>(connection.get(), "shop",
                                                   "k" + std::to_string(++number),
                                                   std::string(32, 'x'), options);
    }
    // Of the last one that was begun.
    std::string state()
    {
        return db.value("select coalesce((select case when completed_at is not null then"
                        " 'completed' when lease_until > now() then 'leased' else 'unanswered' end"
                        " from outbox.idempotency_keys where key = $1), 'free')",
                        "k" + std::to_string(number));
    }

    TestDatabase database;
    Db db;
    Connection connection;
    outbox::RequestOptions two_phase;
    int number = 0;
};

struct End
{
    const char *before;
    const char *call; // "" is none
    const char *after;
    const char *state; // when the object is gone and the transaction as well
    const char *line;  // on stderr; "" is none
    const char *last = "";
};

void
expect_ends(EndScene &scene, const outbox::RequestOptions &options, const std::vector<End> &ends)
{
    for (const End &end : ends)
    {
        SCOPED_TRACE(std::string(end.before) + "; " + end.call + "; " + end.after + "; " +
                     end.last);
        testing::internal::CaptureStderr();
        const bool single = options.mode == outbox::RequestMode::single_tx;
        if (single)
            scene.run("begin");
        std::unique_ptr<IdempotentRequest> request = scene.begin(options);
        scene.run(end.before);
        if (end.call[0] == 'c')
            request->complete({});
        else if (end.call[0] == 'r')
            request->release();
        scene.run_all(end.after);
        const PGTransactionStatusType left = PQtransactionStatus(scene.connection.get());
        request.reset();
        EXPECT_EQ(PQtransactionStatus(scene.connection.get()), left);
        if (left == PQTRANS_INTRANS)
        {
            EXPECT_EQ(run_sql(scene.connection.get(), "show lock_timeout"), "0");
        }
        scene.run_all(end.last);
        const std::string lines = testing::internal::GetCapturedStderr();
        EXPECT_EQ(scene.state(), end.state);
        if (end.line[0] == '\0')
            EXPECT_EQ(lines, "");
        else
            EXPECT_NE(lines.find(end.line), std::string::npos) << lines;
    }
}

} // namespace

TEST(IdempotentRequestEnd, OfTwoPhasesIsWhatTheTransactionLeftOrALineTells)
{
    EndScene scene;
    scene.db.exec("create table late (n int unique deferrable initially deferred)");
    const char *undone = "stays leased until 2";
    expect_ends(
        scene, scene.two_phase,
        {{"select 1", "complete", "select 1", "completed", ""},
         {"select 1", "release", "select 1", "free", ""},
         {"select 1", "", "select 1", "free", ""},
         {"begin", "complete", "commit", "completed", ""},
         {"begin", "complete", "rollback", "free", ""},
         {"begin", "complete", "select 1/0; commit", "free", ""},
         {"begin", "release", "commit", "free", ""},
         {"begin", "release", "rollback", "free", ""},
         {"begin; savepoint s", "complete", "rollback to s; commit", "free", ""},
         {"begin; savepoint s", "complete", "release s; commit", "completed", ""},
         {"begin; savepoint s", "release", "rollback to s; commit", "free", ""},
         // Destroyed within a transaction.
         {"begin", "", "select 1", "leased", undone, "rollback"},
         {"begin", "", "select 1", "free", "", "commit"},
         {"begin", "", "select 1/0", "leased", undone, "rollback"},
         {"begin", "complete", "select 1", "leased", undone, "rollback"},
         {"begin", "complete", "select 1", "completed", "", "commit"},
         {"begin", "complete", "select 1", "completed", "", "commit and chain; commit"},
         {"begin", "complete", "select 1", "leased", undone,
          "insert into late values (1), (1); commit; begin; commit"},
         {"begin", "complete", "select 1/0", "leased", undone, "rollback"},
         {"begin", "release", "select 1", "leased", undone, "rollback"},
         {"begin; savepoint s", "complete", "rollback to s", "free", "", "commit"},
         {"begin; savepoint s", "complete", "select 1", "leased", undone, "rollback to s; commit"},
         {"begin", "complete", "rollback; begin", "leased", undone, "rollback"},
         {"begin", "complete", "rollback; begin", "free", "", "commit"},
         {"begin", "complete", "commit; begin", "completed", "", "rollback"},
         {"begin", "release", "rollback; begin", "leased", undone, "rollback"},
         {"begin isolation level serializable", "complete",
          "rollback; begin isolation level"
          " serializable read only",
          "leased", "is not released", "commit"}});
}

// What another request asks for meanwhile is rolled back, and that is no rollback of this one.
TEST(IdempotentRequestEnd, SeveralInATransactionThatCommitsSayNothing)
{
    EndScene scene;
    testing::internal::CaptureStderr();
    std::vector<std::unique_ptr<IdempotentRequest>> requests;
    for (int i = 0; i < 3; ++i)
        requests.push_back(scene.begin(scene.two_phase));
    scene.run("begin");
    for (std::unique_ptr<IdempotentRequest> &request : requests)
        request->complete({});
    requests.clear();
    scene.run("commit");
    scene.run("begin");
    scene.run("rollback");
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(scene.state(), "completed");
}

TEST(IdempotentRequestEnd, AConnectionThatEndsWithItsTransactionIsToldOf)
{
    for (const bool reset : {false, true})
    {
        EndScene scene;
        std::unique_ptr<IdempotentRequest> request = scene.begin(scene.two_phase);
        scene.run("begin");
        request->complete({});
        testing::internal::CaptureStderr();
        request.reset();
        if (reset)
            PQreset(scene.connection.get());
        else
            scene.connection.reset();
        EXPECT_NE(testing::internal::GetCapturedStderr().find("stays leased until 2"),
                  std::string::npos);
    }
}

TEST(IdempotentRequestEnd, OfASingleTransactionIsThatOfTheTransactionAndALineTellsOfNoAnswer)
{
    EndScene scene;
    const char *unanswered = "a replay of nothing";
    expect_ends(scene, {},
                {{"select 1", "complete", "select 1", "completed", "", "commit"},
                 {"select 1", "complete", "commit", "completed", ""},
                 {"select 1", "complete", "rollback", "free", ""},
                 {"select 1", "complete", "select 1/0", "free", "", "rollback"},
                 {"select 1", "release", "commit", "free", ""},
                 {"select 1", "release", "select 1", "free", "", "commit"},
                 {"savepoint s", "complete", "rollback to s; commit", "unanswered", unanswered},
                 {"savepoint s", "complete", "rollback to s", "unanswered", unanswered, "commit"},
                 {"savepoint s", "complete", "rollback to s; rollback", "free", ""},
                 {"savepoint s", "release", "rollback to s; commit", "unanswered", unanswered}});
}

namespace
{

// What is under way on the connection when the object is destroyed.
enum class Left
{
    open,
    failed,
    statement, // with more rows to come
    copy,
    pipeline
};

void
leave(PGconn *connection, Left left)
{
    if (left == Left::failed)
        PQclear(PQexec(connection, "select 1/0"));
    if (left == Left::statement)
    {
        EXPECT_EQ(PQsendQuery(connection, "select generate_series(1, 3)"), 1);
        EXPECT_EQ(PQsetSingleRowMode(connection), 1);
        PQclear(PQgetResult(connection));
    }
    if (left == Left::copy)
        PQclear(PQexec(connection, "copy nothing from stdin"));
    if (left == Left::pipeline)
    {
        EXPECT_EQ(PQenterPipelineMode(connection), 1);
    }
}

void
take_up(PGconn *connection, Left left)
{
    if (left == Left::copy)
    {
        EXPECT_EQ(PQputCopyEnd(connection, nullptr), 1);
    }
    while (PGresult *result = PQgetResult(connection))
        PQclear(result);
    if (left == Left::pipeline)
    {
        EXPECT_EQ(PQexitPipelineMode(connection), 1);
    }
}

// A request of single_tx, with savepoints before it, in it and behind its answer.
struct Course
{
    unsigned savepoints; // 1: before, 2: in it, 4: behind
    const char *call;
    Left left;
    const char *way; // how the transaction ends; "" is with its connection
};

void
expect_told(EndScene &scene, const Course &course)
{
    const auto set = [&](unsigned which, const char *name)
    {
        if ((course.savepoints & which) != 0)
            scene.run(std::string("savepoint ") + name);
    };
    scene.run("begin");
    set(1, "before");
    std::unique_ptr<IdempotentRequest> request = scene.begin({});
    set(2, "within");
    if (course.call[0] == 'c')
        request->complete({});
    else if (course.call[0] == 'r')
        request->release();
    set(4, "behind");
    leave(scene.connection.get(), course.left);
    testing::internal::CaptureStderr();
    request.reset();
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "it is too early";
    testing::internal::CaptureStderr();
    if (course.way[0] == '\0')
        scene.connection = scene.connect();
    else
    {
        take_up(scene.connection.get(), course.left);
        scene.run_all(course.way);
    }
    const std::string lines = testing::internal::GetCapturedStderr();
    const std::string state = scene.state();
    const bool sure = lines.find("was committed without an answer") != std::string::npos;
    const bool perhaps = lines.find("may be without an answer") != std::string::npos;
    if (state == "unanswered")
    {
        EXPECT_TRUE(sure || perhaps) << lines;
    }
    else
    {
        EXPECT_FALSE(sure) << lines;
        // Only where nobody can know to which savepoint it went.
        EXPECT_TRUE(!perhaps || ((course.savepoints & 6) != 0 && course.savepoints != 4)) << lines;
    }
    EXPECT_EQ(lines.empty(), !sure && !perhaps) << lines;
}

} // namespace

// Whatever was under way when the object was destroyed, and however the transaction went on.
TEST(IdempotentRequestEnd, OfASingleTransactionNoCommitWithoutAnAnswerIsPassedOverInSilence)
{
    EndScene scene;
    scene.db.exec("create table nothing (n int)");
    int unanswered = 0;
    for (unsigned savepoints = 0; savepoints < 8; ++savepoints)
        for (const char *call : {"", "complete", "release"})
            for (const Left left :
                 {Left::open, Left::failed, Left::statement, Left::copy, Left::pipeline})
                for (const char *way :
                     {"", "rollback", "commit", "rollback; begin; commit",
                      "rollback to before; commit", "rollback to within; commit",
                      "rollback to behind; commit", "rollback to within; savepoint x; rollback",
                      "rollback to before; savepoint x; select 1; release x; commit",
                      "select 1/0; rollback to within; release within; commit"})
                {
                    SCOPED_TRACE(std::to_string(savepoints) + "; " + call + "; " +
                                 std::to_string(static_cast<int>(left)) + "; " + way);
                    expect_told(scene, {savepoints, call, left, way});
                    unanswered += scene.state() == "unanswered";
                    if (PQtransactionStatus(scene.connection.get()) != PQTRANS_IDLE)
                        scene.run("rollback");
                }
    EXPECT_GT(unanswered, 50);
}

// A commit that is under way, and a transaction that is prepared.
TEST(IdempotentRequestEnd, ACommitThatIsUnderWayAndAPreparedTransactionAreToldOfToo)
{
    EndScene scene;
    for (const char *sql : {"commit", "prepare transaction 'request'"})
    {
        scene.run("begin");
        std::unique_ptr<IdempotentRequest> request = scene.begin({});
        EXPECT_EQ(PQsendQuery(scene.connection.get(), sql), 1);
        testing::internal::CaptureStderr();
        request.reset();
        take_up(scene.connection.get(), Left::statement);
        EXPECT_NE(testing::internal::GetCapturedStderr().find("a replay of nothing"),
                  std::string::npos)
            << sql;
    }
    scene.db.exec("commit prepared 'request'");
    EXPECT_EQ(scene.state(), "unanswered");
}

// As by a statement_timeout at a bad moment: what asks for the transaction's number fails.
TEST(IdempotentRequestEnd, ACompletionThatFailsInAnyOfItsStatementsGivesTheKeyBack)
{
    EndScene scene;
    const std::string role = scene.database.name() + "_shop";
    scene.db.exec("create role " + role + "; select outbox.grant_consumer('" + role + "')");
    scene.run("set role " + role);
    std::unique_ptr<IdempotentRequest> request = scene.begin(scene.two_phase);
    scene.db.exec("revoke execute on function pg_current_xact_id_if_assigned() from public");
    scene.run("begin");
    EXPECT_EQ(code_of([&] { request->complete({}); }), "42501");
    scene.run("rollback");
    testing::internal::CaptureStderr();
    request.reset();
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(scene.state(), "free");
    scene.run("reset role");
    scene.db.exec("drop owned by " + role + "; drop role " + role);
}

TEST(IdempotentRequestEnd, ACompletionWhoseTransactionIsLostIsToldOf)
{
    EndScene scene;
    std::unique_ptr<IdempotentRequest> request = scene.begin(scene.two_phase);
    scene.run("begin");
    request->complete({});
    scene.db.value("select pg_terminate_backend($1::int)",
                   std::to_string(PQbackendPID(scene.connection.get())));
    EXPECT_NE(code_of([&] { scene.run("commit"); }), "");
    testing::internal::CaptureStderr();
    request.reset();
    EXPECT_NE(testing::internal::GetCapturedStderr().find("stays leased until 2"),
              std::string::npos);
    EXPECT_EQ(scene.state(), "leased");
}

// A session that holds the row, as by a takeover in a transaction that stays open.
TEST(IdempotentRequestEnd, TheDestructorWaitsForNoOtherSessionWithoutEnd)
{
    EndScene scene;
    std::unique_ptr<IdempotentRequest> request = scene.begin(scene.two_phase);
    scene.db.exec("begin; select from outbox.idempotency_keys for update");
    testing::internal::CaptureStderr();
    request.reset();
    EXPECT_NE(testing::internal::GetCapturedStderr().find("is not released: "), std::string::npos);
    scene.db.exec("commit");
    EXPECT_EQ(scene.state(), "leased");
    EXPECT_EQ(PQtransactionStatus(scene.connection.get()), PQTRANS_IDLE);
}

TEST(IdempotentRequestEnd, ALostConnectionIsADatabaseError)
{
    EndScene scene;
    const auto refusal = [&](PGconn *connection, const outbox::RequestOptions &options)
    {
        try
        {
            IdempotentRequest(connection, "shop", "k", std::string(32, 'x'), options);
        }
        catch (const outbox::DatabaseError &error)
        {
            EXPECT_TRUE(error.connection_lost());
            return error.code();
        }
        catch (const outbox::Error &error)
        {
            return "another one: " + error.code();
        }
        return std::string();
    };
    const Connection never(PQconnectdb("host=/nonexistent"), &PQfinish);
    for (const outbox::RequestOptions &options : {outbox::RequestOptions(), scene.two_phase})
    {
        const Connection lost = scene.connect();
        scene.db.value("select pg_terminate_backend($1::int)",
                       std::to_string(PQbackendPID(lost.get())));
        EXPECT_NE(code_of([&] { run_sql(lost.get(), "select 1"); }), "");
        EXPECT_EQ(refusal(lost.get(), options), "08006");
        EXPECT_EQ(refusal(never.get(), options), "08006");
    }
}
