// What becomes of the key of a request whose completion or release does not last.
#include "request_end_scene.h"

using namespace outbox::test;
using outbox::IdempotentRequest;

namespace
{

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
