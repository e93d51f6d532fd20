// contracts lint: the folder, and the form of a contract
#include "contracts.h"

#include <cstdlib>

#include <sys/stat.h>
#include <sys/wait.h>

#include "support/tree.h"

namespace outbox::test
{

namespace
{

TEST_F(Contracts, ThoseOfThisProjectAreWhole)
{
    const Ran ran = ctl({}, {"contracts", "lint", in_source("docs/events"), "--json"});
    EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
    EXPECT_EQ(ran.json()["contracts"], 2);
    EXPECT_EQ(ran.json()["problems"].size(), 0U);
}

TEST_F(Contracts, AWholeOneHasNoProblem)
{
    write("orders/order-placed.md", kContract);
    write("README.md", "anything");
    write("orders/README.md", "anything");
    write(".hidden", "anything");
    const Ran ran = lint();
    EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
    EXPECT_EQ(ran.out, "1 contract, 2 versions, 3 examples: 0 problems\n");
}

TEST_F(Contracts, WindowsLineEndsAreTaken)
{
    std::string text = kContract;
    for (std::size_t i = 0; (i = text.find('\n', i)) != std::string::npos; i += 2)
        text.insert(i, 1, '\r');
    write("orders/order-placed.md", text);
    EXPECT_EQ(lint().status, 0) << lint().out;
}

TEST_F(Contracts, TheFormIsCheckedLineByLine)
{
    const std::vector<std::pair<std::string, std::string>> cases = {
        {contract("owner: Team, team@example.com\n", ""), "1: the front matter lacks \"owner\""},
        {contract("owner:", "team:"), "1: the front matter lacks \"owner\"\n"},
        {contract("owner: Team, team@example.com", "owner:team"), "6: this is no \"key: value\"\n"},
        {contract("owner: Team", "owner:\tTeam"), "6: this line holds a tab; "},
        {contract("example.com", "example.com\t# us"), "6: this line holds a tab; "},
        {contract("schema_version: 2", "schema_version: two"), "4: schema_version is a number"},
        {contract("schema_version: 2", "schema_version: 3"), "18: the newest version comes first"},
        {contract("compatibility: backward", "compatibility: some"), "5: compatibility is"},
        {contract("# order.placed", "# order"), "8: the title is \"order\", event_type is"},
        {contract("It was placed.\n", ""), "8: below the title stands"},
        {contract("## Consumers\nIgnore what you do not know.\n", ""),
         "1: the section \"## Consumers\" is missing"},
        {contract("The id.\n", ""), "10: \"Partition key\" says nothing"},
        {contract("## Partition key\nThe id.\n## Idempotency key",
                  "## Idempotency key\nThe id.\n## Partition key"),
         "12: \"Partition key\" comes too late; the order is"},
        {contract("## Version 2\n", "## Notes\nNotes.\n## Version 2\n"),
         "18: there is no section \"Notes\""},
        {contract("## Version 2\n", "## Consumers\nTwice.\n## Version 2\n"),
         "18: \"Consumers\" is there twice"},
        {contract("## Version 1", "## Version 2"), "43: here comes version 1, without a gap"},
        {contract("Adds b.\n", ""), "18: what the version changed is not said"},
        {contract("### Example\n", "### Sample\n"), "32: below a version stand Schema"},
        {contract("```json\n{ \"a\": 1 }\n```\n", "`{}`\n"), "52: \"Example\" holds one block"},
        {contract("### Counterexample: no a\n```json\n{ \"b\": \"x\" }\n```\n", "~~~\n"),
         "39: a block is fenced with ```"},
        {contract("It was placed.", "It was placed.\n---"), "10: lines of = or - make headings"},
        {contract("It was placed.", "It was placed. <!-- or not -->"), "9: comments are not read"},
        {contract("It was placed.", "It was \x01placed."), "9: this line holds the control"},
        {contract("It was placed.", "It was pl\xff"), "9: this line is not UTF-8"},
        {contract("{ \"a\": 1 }\n```\n", "{ \"a\": 1 }\n"), "53: this block is not closed"},
        {contract("---\nevent", "\xEF\xBB\xBF---\nevent"), "1: the file begins with a byte order"},
        {"", "1: the first line has to be \"---\""},
    };
    for (const auto &[text, problem] : cases)
    {
        write("orders/order-placed.md", text);
        const Ran ran = lint();
        EXPECT_EQ(ran.status, 4) << problem;
        EXPECT_NE(ran.out.find("orders/order-placed.md:" + problem), std::string::npos)
            << problem << "\n"
            << ran.out;
    }
}

TEST_F(Contracts, FrontMatterIsTextForEveryReaderOfYaml)
{
    const auto with_owner = [](const std::string &owner)
    { return contract("Team, team@example.com", owner); };
    for (const char *owner :
         {"null",  "Null", "~",          "true", "FALSE",         "no",   "On",
          "y",     "5",    "+5",         ".5",   "1e3",           "1.5",  "1_000",
          "12:30", "0x1F", "0o17",       "<<",   ".inf",          ".NaN", "+.Inf",
          "=",     "5.",   "2026-11-23", "1E-3", "2026-1-1 10:00"})
        EXPECT_TRUE(refused(with_owner(owner), "6: \"owner\" is no text in YAML; "
                                               "write more than that\n"))
            << owner;
    EXPECT_TRUE(refused(contract("aggregate_type: order", "aggregate_type: 1"),
                        "3: \"aggregate_type\" is no text in YAML"));
    for (const char *owner : {"nobody", "team true", "3rd team", "3.x", "v5", "e5", "0xyz",
                              "2026-11-23-team", "one.inf", "1:a", "1e", "5 teams"})
    {
        write("orders/order-placed.md", with_owner(owner));
        EXPECT_EQ(lint().status, 0) << lint().out;
    }
}

TEST_F(Contracts, ProblemsAreToldInTheOrderOfTheirLines)
{
    write("orders/order-placed.md", replaced(contract("It was placed.\n", ""),
                                             "## Consumers\nIgnore what you do not know.\n", ""));
    const std::string out = lint().out;
    const std::size_t first = out.find(".md:1: the section \"## Consumers\" is missing");
    const std::size_t second = out.find(".md:8: below the title");
    EXPECT_NE(second, std::string::npos) << out;
    EXPECT_LT(first, second) << out;
    // Without an event type, nothing is compared with it.
    EXPECT_TRUE(refused(contract("event_type: order.placed\n", ""), "1: the front matter lacks"));
}

TEST_F(Contracts, EachEventTypeHasOneContractInTheFileOfItsName)
{
    write("orders/order-placed.md", kContract);
    write("sales/order-placed.md", kContract);
    EXPECT_TRUE(refused("sales/order-placed.md:2: there is a contract of \"order.placed\" of "
                        "\"order\" already: " +
                        folder_.string() + "/orders/order-placed.md"));
    write("sales/order-placed.md", contract("aggregate_type: order", "aggregate_type: offer"));
    EXPECT_EQ(lint().status, 0) << lint().out;
    std::filesystem::rename(folder_ / "sales/order-placed.md", folder_ / "sales/placed.md");
    EXPECT_TRUE(refused("sales/placed.md:2: the contract of \"order.placed\" has to be named"));
}

TEST_F(Contracts, TheTemplateIsCheckedButForItsName)
{
    write("orders/order-placed.md", kContract);
    write("TEMPLATE.md", kContract);
    EXPECT_EQ(lint().out, "1 contract, 2 versions, 3 examples: 0 problems\n");
    write("TEMPLATE.md", contract("Adds b.\n", ""));
    EXPECT_TRUE(refused("TEMPLATE.md:18: what the version changed is not said"));
}

TEST_F(Contracts, WhatDoesNotBelongIntoTheFolderIsNamed)
{
    const auto inside = [&](const std::string &path, const std::string &problem)
    {
        write("orders/order-placed.md", kContract);
        EXPECT_TRUE(refused(path + ":1: this " + problem));
        std::filesystem::remove_all(folder_);
    };
    write("stray.md", "");
    inside("stray.md", "does not belong here");
    write("orders/order.json", "");
    inside("orders/order.json", "is no contract");
    for (const std::string name : {"Orders X", "-orders", "orders-", "or--ders"})
    {
        write(name + "/README.md", "");
        inside(name, "is no name of a domain");
    }
    write("orders/deep/a.md", "");
    inside("orders/deep", "is a directory");
    write("orders/big.md", std::string(256UL * 1024 + 1, 'x'));
    inside("orders/big.md", "is larger than 256 KiB");
    std::filesystem::create_directories(folder_ / "orders");
    std::filesystem::create_directory_symlink("..", folder_ / "orders/loop");
    inside("orders/loop", "is a symbolic link");
    std::filesystem::create_directories(folder_);
    std::filesystem::create_symlink("loop", folder_ / "loop");
    inside("loop", "is a symbolic link");
    std::filesystem::create_directories(folder_ / "orders");
    ASSERT_EQ(::mkfifo((folder_ / "orders/pipe.md").c_str(), 0600), 0);
    inside("orders/pipe.md", "is no file");
    std::filesystem::create_directories(folder_ / "orders");
    ASSERT_EQ(::mknod((folder_ / "orders/socket.md").c_str(), S_IFSOCK | 0600, 0), 0);
    inside("orders/socket.md", "cannot be read: No such device or address");
}

TEST_F(Contracts, AFolderHasTenThousandFilesAtMost)
{
    const auto refuses = [&](const std::string &why)
    {
        const Ran ran = lint();
        EXPECT_EQ(ran.status, 1) << ran.out.substr(0, 1000);
        EXPECT_NE(ran.err.find("there are more than 10000 " + why), std::string::npos) << ran.err;
    };
    const std::filesystem::path first = folder_ / "orders/0.md";
    write("orders/0.md", "");
    for (int i = 1; i < 10000; i++)
        std::filesystem::create_hard_link(first, folder_ / "orders" / (std::to_string(i) + ".md"));
    write("sales/a.md", "");
    refuses("contracts");
    write("orders/a.md", "");
    refuses("files in");
}

// They are read one by one: all of them together would be more than it may have here.
TEST_F(Contracts, AFolderMayBeLargerThanTheMemory)
{
    if (std::getenv("OUTBOXCTL") != nullptr)
        GTEST_SKIP() << "a sanitizer takes more memory than that";
    constexpr int kFiles = 400;
    constexpr std::size_t kSize = 250 * 1024;
    for (int i = 0; i < kFiles; i++)
    {
        const std::string path = "orders/c" + std::to_string(i) + ".md";
        write(path, "");
        std::filesystem::resize_file(folder_ / path, kSize); // it takes no place
    }
    Command lint({"sh", "-c", "ulimit -v 100000 && exec \"$0\" contracts lint \"$1\"", outboxctl(),
                  folder_.string()});
    const Finished ran = run(lint, std::chrono::seconds(60));
    ASSERT_TRUE(WIFEXITED(ran.status));
    EXPECT_EQ(WEXITSTATUS(ran.status), 4) << ran.output.substr(0, 1000);
    EXPECT_NE(ran.output.find(": " + std::to_string(kFiles) + " problem"), std::string::npos)
        << ran.output.substr(0, 1000);
}

TEST_F(Contracts, AFolderThatIsNotThereOrEmptyIsAnError)
{
    Ran ran = lint();
    EXPECT_EQ(ran.status, 1);
    EXPECT_NE(ran.err.find("there is no contract in"), std::string::npos) << ran.err;
    ran = ctl({}, {"contracts", "lint", folder_ / "nowhere"});
    EXPECT_EQ(ran.status, 1);
    EXPECT_NE(ran.err.find("No such file or directory"), std::string::npos) << ran.err;
    EXPECT_EQ(ctl({}, {"contracts", "lint", "a", "b"}).status, 2);
    EXPECT_EQ(ctl({}, {"contracts"}).status, 2);
}

TEST_F(Contracts, WithJsonProblemsHaveFileLineAndMessage)
{
    write("orders/order-placed.md", contract("Adds b.\n", ""));
    const Ran ran = lint({"--json"});
    EXPECT_EQ(ran.status, 4);
    const Json report = ran.json();
    EXPECT_EQ(report["contracts"], 1);
    EXPECT_EQ(report["versions"], 2);
    EXPECT_EQ(report["examples"], 3);
    ASSERT_EQ(report["problems"].size(), 1U) << report;
    EXPECT_EQ(report["problems"][0]["file"], folder_.string() + "/orders/order-placed.md");
    EXPECT_EQ(report["problems"][0]["line"], 18);
    EXPECT_EQ(report["problems"][0]["message"], "what the version changed is not said");
}

} // namespace

} // namespace outbox::test
