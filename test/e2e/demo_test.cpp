// "make demo": its stories check what they tell, on servers of their own.
#include "servers.h"
#include "support/process.h"
#include "support/tree.h"

using namespace outbox::test;

namespace
{

Finished
run_demo(std::vector<std::string> words)
{
    words.insert(words.begin(), in_build("test/demo"));
    return run(Command(words), std::chrono::seconds(120));
}

} // namespace

TEST(Demo, TellsTheStoryOfAnOrderAndSaysWhatToTryNext)
{
    const Finished demo = run_demo({"--once"});
    EXPECT_TRUE(demo.ok()) << demo.output;
    for (const char *text :
         {"ok 7 committed events, each received once", "ok nothing of the rolled-back order",
          "What to try next", "make demo STORY=outage"})
        EXPECT_NE(demo.output.find(text), std::string::npos) << text << "\n" << demo.output;
}

TEST(Demo, ShowsThatAnOutageOfTheBrokerLosesNothingAndKeepsTheOrder)
{
    const Finished demo = run_demo({"--once", "--outage"});
    EXPECT_TRUE(demo.ok()) << demo.output;
    for (const char *text : {"state       backing_off", "backlog     9 events",
                             "ok 10 committed events, each received once",
                             "ok each order's events in their order: created, paid, shipped"})
        EXPECT_NE(demo.output.find(text), std::string::npos) << text << "\n" << demo.output;
}

TEST(Demo, TakesNoBrokerAwayThatIsNotItsOwn)
{
    const Finished demo = run_demo({"--once", "--outage", "--bootstrap", "127.0.0.1:1"});
    EXPECT_NE(demo.status, 0);
    EXPECT_NE(demo.output.find("--bootstrap"), std::string::npos) << demo.output;
}
