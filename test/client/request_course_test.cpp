// What a request of single_tx says of a transaction that continues without its object.
#include <algorithm>

#include "request_end_scene.h"

using namespace outbox::test;
using outbox::IdempotentRequest;

namespace
{

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
                      "select 1/0; rollback to within; release within; commit", "begin; commit",
                      "release within; savepoint x; rollback to x; commit"})
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

namespace
{

// A request of single_tx in a transaction, statement by statement.
struct Way
{
    const char *within;
    const char *call;
    const char *behind;
    Left left;
    const char *end; // when the object is gone
    const char *line;
    const char *state;
};

constexpr const char *kWas = "was committed without an answer";
constexpr const char *kMayBe = "may be without an answer";

void
expect_ways(EndScene &scene, const std::vector<Way> &ways)
{
    for (const Way &way : ways)
    {
        SCOPED_TRACE(std::string(way.within) + " | " + way.call + " | " + way.behind + " | " +
                     way.end);
        testing::internal::CaptureStderr();
        scene.run("begin");
        std::unique_ptr<IdempotentRequest> request = scene.begin({});
        scene.run_all(way.within);
        if (way.call[0] == 'c')
            request->complete({});
        scene.run_all(way.behind);
        leave(scene.connection.get(), way.left);
        request.reset();
        take_up(scene.connection.get(), way.left);
        scene.run_all(way.end);
        const std::string lines = testing::internal::GetCapturedStderr();
        EXPECT_EQ(scene.state(), way.state);
        EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), way.line[0] == '\0' ? 0 : 1)
            << lines;
        EXPECT_NE(lines.find(way.line), std::string::npos) << lines;
        EXPECT_EQ(PQtransactionStatus(scene.connection.get()), PQTRANS_IDLE);
    }
}

} // namespace

// It is a warning of the server's, and changes nothing.
TEST(IdempotentRequestEnd, AStrayBeginIsNoEndOfASingleTransaction)
{
    EndScene scene;
    expect_ways(
        scene,
        {{"", "", "", Left::statement, "begin; commit", kWas, "unanswered"},
         {"", "", "begin", Left::statement, "commit", kWas, "unanswered"},
         {"savepoint a", "", "", Left::failed, "rollback to a; release a;start transaction; commit",
          kMayBe, "unanswered"},
         {"savepoint a", "complete", "", Left::statement, "begin; rollback to a; commit", kMayBe,
          "unanswered"},
         // What looks the same but for the savepoint's name, which is not seen.
         {"savepoint a", "", "", Left::failed, "rollback; begin; commit", "", "free"},
         {"savepoint a", "", "", Left::failed, "rollback to a; begin; commit", "", "unanswered"}});
    std::unique_ptr<IdempotentRequest> request = scene.begin(scene.two_phase);
    scene.run("begin");
    request->complete({});
    testing::internal::CaptureStderr();
    request.reset();
    scene.run_all("begin; commit");
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(scene.state(), "completed");
}

TEST(IdempotentRequestEnd, ASavepointThatIsReleasedMattersNoMore)
{
    EndScene scene;
    const char *later = "savepoint x; select 1/0; rollback to x; release x; commit";
    expect_ways(
        scene,
        {{"savepoint a; select 1; release a", "complete", "", Left::open, later, "", "completed"},
         {"savepoint a; release a", "complete", "", Left::statement, later, "", "completed"},
         {"savepoint a", "complete", "release a", Left::open, later, "", "completed"},
         {"savepoint a", "complete", "release a", Left::open, "rollback and chain; commit", "",
          "free"},
         {"savepoint a; select 1/0; rollback to a; release a", "", "", Left::open, later, "",
          "free"},
         {"savepoint a; savepoint b", "complete", "release b; release a", Left::statement, later,
          "", "completed"},
         {"savepoint a; savepoint b", "complete", "release b", Left::statement,
          "rollback to a; commit", kMayBe, "unanswered"},
         {"savepoint a; savepoint b; release b", "complete", "", Left::open,
          "rollback to a; commit", kMayBe, "unanswered"},
         {"savepoint a", "complete", "savepoint b; release b", Left::open, "rollback to a; commit",
          kMayBe, "unanswered"},
         // The outer one takes the inner one along, which is not seen.
         {"savepoint a; savepoint b", "complete", "release a", Left::open, later, kMayBe,
          "completed"}});
}

TEST(IdempotentRequestEnd, APreparedTransactionIsToldOfWhereverTheObjectGoes)
{
    EndScene scene;
    const char *commit = "commit prepared 'way'";
    const char *prepare = "prepare transaction 'way'";
    expect_ways(scene, {{"", "", prepare, Left::open, commit, kWas, "unanswered"},
                        {"", "", prepare, Left::statement, commit, kWas, "unanswered"},
                        {"", "", "prepare transaction 'way'; begin", Left::open,
                         "commit; commit prepared 'way'", kWas, "unanswered"},
                        {"savepoint a", "complete", prepare, Left::open, commit, "", "completed"},
                        {"savepoint a", "complete", "rollback to a; prepare transaction 'way'",
                         Left::open, commit, kMayBe, "unanswered"},
                        {"savepoint a", "complete", "prepare transaction 'way'", Left::open,
                         "rollback prepared 'way'", "", "free"}});
}

TEST(IdempotentRequestEnd, ACommitThatFailsIsTheEndOfASingleTransaction)
{
    EndScene scene;
    scene.db.exec("create table late (n int unique deferrable initially deferred)");
    const char *bad = "insert into late values (1), (1)";
    expect_ways(scene,
                {{bad, "", "", Left::statement, "commit; commit", "", "free"},
                 {bad, "", "", Left::statement, "commit; select 1; commit", "", "free"},
                 {bad, "", "", Left::statement, "commit; begin; commit", "", "free"},
                 {bad, "", "", Left::open, "commit; commit", "", "free"},
                 {"savepoint a", "", "", Left::failed,
                  "rollback to a; insert into late values (1), (1); commit; commit", "", "free"}});
}

// The work is committed, and the answer that comes later is in a transaction of its own.
TEST(IdempotentRequestEnd, AnAnswerInTheNextTransactionIsFollowedThere)
{
    EndScene scene;
    const char *next = "commit; begin";
    expect_ways(scene,
                {{next, "complete", "", Left::open, "commit", "", "completed"},
                 {next, "complete", "", Left::statement, "commit", "", "completed"},
                 {next, "complete", "", Left::open, "rollback", kMayBe, "unanswered"},
                 {next, "complete", "", Left::failed, "rollback", kMayBe, "unanswered"},
                 {next, "", "", Left::failed, "rollback", kWas, "unanswered"},
                 {"commit", "complete", "begin", Left::failed, "rollback", "", "completed"}});
}

// Whose object is destroyed on the connection that follows.
TEST(IdempotentRequestEnd, ASingleTransactionThatWasCommittedBeforeAResetIsToldOf)
{
    for (const bool committed : {true, false})
    {
        EndScene scene;
        scene.run("begin");
        std::unique_ptr<IdempotentRequest> request = scene.begin({});
        if (committed)
            scene.run("commit");
        PQreset(scene.connection.get());
        scene.run("begin");
        leave(scene.connection.get(), Left::failed);
        testing::internal::CaptureStderr();
        request.reset();
        scene.run_all("rollback; begin; commit");
        EXPECT_EQ(testing::internal::GetCapturedStderr().find(kWas) != std::string::npos,
                  committed);
    }
}

// The second one could only begin because the first one was undone, or had given the key back.
TEST(IdempotentRequestEnd, ARequestThatBeginsAgainIsNotBlamedForTheOneBefore)
{
    EndScene scene;
    scene.run("begin; savepoint o");
    std::unique_ptr<IdempotentRequest> request = scene.begin({});
    scene.run("savepoint a");
    leave(scene.connection.get(), Left::failed);
    testing::internal::CaptureStderr();
    request.reset();
    scene.run("rollback to o");
    --scene.number;
    request = scene.begin({});
    request->complete({});
    request.reset();
    scene.run("commit");
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(scene.state(), "completed");

    scene.run("begin");
    request = scene.begin({});
    scene.run("savepoint a");
    request->release();
    request.reset();
    --scene.number;
    request = scene.begin({});
    request->complete({});
    testing::internal::CaptureStderr();
    request.reset();
    scene.run_all("rollback to a; commit");
    EXPECT_NE(testing::internal::GetCapturedStderr().find(kMayBe), std::string::npos);
    EXPECT_EQ(scene.state(), "unanswered");
}

// Of a thousand at a time, so that a connection that lives for long, or a transaction that does all
// its work at once, does not fill the memory. One that is answered outside is none of them.
TEST(IdempotentRequestEnd, OnlySoManyRequestsAreFollowed)
{
    EndScene scene;
    scene.run("set synchronous_commit = off; begin");
    std::unique_ptr<IdempotentRequest> first = scene.begin({});
    scene.run("commit");
    for (int i = 0; i < 1000; ++i)
    {
        scene.run("begin");
        std::unique_ptr<IdempotentRequest> request = scene.begin({});
        scene.run("commit");
        request->complete({});
    }
    scene.run("begin");
    leave(scene.connection.get(), Left::failed);
    testing::internal::CaptureStderr();
    first.reset();
    EXPECT_NE(testing::internal::GetCapturedStderr().find(kWas), std::string::npos);
    scene.run("rollback; begin");
    std::vector<std::unique_ptr<IdempotentRequest>> requests;
    for (int i = 0; i < 1001; ++i)
        requests.push_back(scene.begin({}));
    EXPECT_EQ(PQsendQuery(scene.connection.get(), "commit"), 1);
    testing::internal::CaptureStderr();
    requests.clear();
    take_up(scene.connection.get(), Left::statement);
    const std::string lines = testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1000);
}
