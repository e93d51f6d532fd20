// What becomes of outboxctl when its output cannot go where it should.
#include "piped.h"
#include "support/seed.h"

#include <random>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace outbox::test
{

namespace
{

constexpr int kOutputGone = 141;

class OutputGone : public CtlTest
{
protected:
    Environment environment() const { return connection(cluster(), database_.name()); }
};

const std::vector<Words> kReaders = {{"status"},
                                     {"status", "--json"},
                                     {"lag", "--sample", "0"},
                                     {"failed", "list", "--json"},
                                     {"replays", "list", "--json"},
                                     {"doctor", "--json"},
                                     {"completion", "bash"},
                                     {"--help"},
                                     {"--version"},
                                     {"failed", "list", "--help"}};

const std::vector<Words> kEndless = {{"status", "--watch", "--interval", "20ms", "--json"},
                                     {"status", "--watch", "--interval", "20ms"},
                                     {"tail"},
                                     {"tail", "--json"}};

TEST_F(OutputGone, AReaderWhoWentAwayEndsEveryCommandQuietly)
{
    std::mt19937 random(choose_seed());
    for (const Words &words : kReaders)
    {
        const Read nothing = read_and_leave(environment(), words, 0);
        EXPECT_EQ(nothing.status, kOutputGone) << words[0] << nothing.err;
        EXPECT_EQ(nothing.err, "") << words[0];
        // What fits into the pipe is written before anybody leaves.
        const Read some = read_and_leave(environment(), words, 1 + random() % 40);
        EXPECT_TRUE(some.status == 0 || some.status == kOutputGone) << words[0] << some.err;
        EXPECT_EQ(some.err, "") << words[0];
    }
}

TEST_F(OutputGone, WhatNeverEndsByItselfEndsByThat)
{
    emit("1");
    for (const Words &words : kEndless)
    {
        for (const std::size_t bytes : {0U, 1U, 200U})
        {
            if (words[0] == "tail" && bytes > 0)
                continue; // nothing is published, so there is nothing to read
            const Read read = read_and_leave(environment(), words, bytes);
            EXPECT_EQ(read.status, kOutputGone)
                << words[0] << " " << words.back() << " " << bytes << read.err;
            EXPECT_EQ(read.err.find("write"), std::string::npos) << read.err;
        }
    }
}

TEST_F(OutputGone, ALargeOutputThatIsCutAtAnyByteIsItsBeginning)
{
    const std::string id =
        db_.value("select outbox.emit($1, '1', 'x', (select jsonb_agg(repeat('y', 1000) || i) from "
                  "generate_series(1, 500) i))",
                  database_.type());
    ASSERT_EQ(db_.value("select outbox.wait_published($1::uuid)", id), "t"); // shown ever after
    const Words words = {"failed", "show", id, "--json"};
    const std::string all = ctl(words).out;
    ASSERT_GT(all.size(), 500000U);
    std::mt19937 random(choose_seed());
    for (int i = 0; i < 8; i++)
    {
        const std::size_t bytes = 1 + random() % 400000;
        const Read read = read_and_leave(environment(), words, bytes);
        EXPECT_EQ(read.status, kOutputGone) << bytes;
        EXPECT_TRUE(read.out == all.substr(0, bytes)) << bytes;
    }
    EXPECT_TRUE(read_and_leave(environment(), words, all.size() + 1).out == all);
}

TEST_F(OutputGone, AFullDiskIsAnErrorOfEveryCommand)
{
    std::vector<Words> all = kReaders;
    all.insert(all.end(), kEndless.begin(), kEndless.begin() + 2);
    all.push_back({"tail", "-t", database_.topic(), "-b", "-n", "1"});
    emit("1");
    for (const Words &words : all)
    {
        const Read read = run_into(environment(), words, "/dev/full");
        EXPECT_EQ(read.status, 1) << words[0];
        EXPECT_NE(read.err.find("cannot write to standard output: No space left on device"),
                  std::string::npos)
            << words[0] << read.err;
    }
}

TEST_F(OutputGone, AClosedOutputIsAnErrorBeforeAnythingIsDone)
{
    std::vector<Words> all = kReaders;
    all.push_back({"emit", database_.type(), "1", "x", "{}"});
    all.push_back({"pause"});
    for (const Words &words : all)
    {
        const Read read = run_into(environment(), words, "");
        EXPECT_EQ(read.status, 1) << words[0];
        EXPECT_NE(read.err.find("standard output is closed"), std::string::npos) << read.err;
    }
    EXPECT_EQ(db_.value("select count(*) from outbox.events"), "0");
    EXPECT_EQ(db_.value("select count(*) from outbox.pauses"), "0");
}

TEST_F(OutputGone, WhatHasHappenedIsToldAllTheSame)
{
    const Read full =
        run_into(environment(), {"emit", database_.type(), "1", "x", "{}"}, "/dev/full");
    EXPECT_EQ(full.status, 1);
    EXPECT_NE(
        full.err.find("The event " + db_.value("select id from outbox.events") + " is emitted."),
        std::string::npos)
        << full.err;
    const Read gone = read_and_leave(environment(), {"pause"}, 0);
    EXPECT_EQ(gone.status, kOutputGone);
    EXPECT_NE(gone.err.find("Publishing is paused."), std::string::npos) << gone.err;
}

// A pipe that is full, and whose reader does not read.
TEST_F(OutputGone, AStalledReaderDoesNotHoldUpASignal)
{
    const std::string big(300000, 'x');
    db_.exec("select outbox.emit($1, '1', 'x', to_jsonb($2::text))", database_.type(), big);
    const std::string fifo = run_dir() / unique_name("fifo");
    ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
    const int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ASSERT_GE(reader, 0);
    Command command({"/bin/sh", "-c", R"(exec "$1" tail -t "$2" -b >"$3")", "sh", outboxctl(),
                     database_.topic(), fifo});
    command.environment = environment();
    Process process(command);
    EXPECT_TRUE(wait_until(std::chrono::seconds(20),
                           [&]
                           {
                               int waiting = 0;
                               return ioctl(reader, FIONREAD, &waiting) == 0 && waiting > 60000;
                           }));
    EXPECT_TRUE(process.stop(SIGTERM, std::chrono::seconds(5)));
    (void) close(reader);
}

} // namespace

} // namespace outbox::test
