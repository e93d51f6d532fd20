// The man page and the completion.
#include "ctl.h"
#include "pty.h"

namespace outbox::test
{

namespace
{

std::string
document(const std::string &ending)
{
    return outboxctl() + "." + ending;
}

TEST(ManPage, MandocAndManFindNothingWrong)
{
    const Finished lint = run(Command({"mandoc", "-T", "lint", document("1")}));
    EXPECT_TRUE(lint.ok());
    EXPECT_EQ(lint.output, "");
    Command man({"man", "--warnings", "-l", document("1")});
    man.environment = {{"LC_ALL", "C.UTF-8"}, {"MANWIDTH", "80"}, {"MANPAGER", "cat"}};
    const Finished shown = run(man);
    EXPECT_TRUE(shown.ok());
    EXPECT_EQ(shown.output.find("warning"), std::string::npos) << shown.output;
}

TEST(ManPage, SaysWhatHelpSays)
{
    const std::string page = run_or_throw(Command(
        {"sh", "-c", "mandoc -T utf8 '" + document("1") + "' | col -bx | tr -s ' \n' ' '"}));
    const std::string help = ctl({}, {"--help"}).out;
    for (const char *text : {"failed retry", "--kafka-config", "contracts found a problem",
                             "for status --watch and tail also when Ctrl-C ended them"})
        EXPECT_NE(page.find(text), std::string::npos) << text << "\n" << page;
    EXPECT_NE(help.find("for status --watch and tail also when Ctrl-C ended them"),
              std::string::npos);
    EXPECT_EQ(page.find("man-page"), std::string::npos);
}

// What an interactive bash has on its line after the keys.
std::string
completed(const std::string &keys, const std::string &expected)
{
    Pty bash({"bash", "--norc", "--noprofile", "-i"},
             {{"PS1", "READY>"}, {"INPUTRC", "/dev/null"}, {"TERM", "dumb"}, {"HISTFILE", ""}},
             200);
    EXPECT_TRUE(bash.shows("READY>"));
    bash.mark();
    bash.type("source " + document("bash") +
              "; bind 'set show-all-if-ambiguous on' 'set bell-style none' "
              "'set completion-query-items 500' 'set page-completions off'\n");
    EXPECT_TRUE(bash.shows("READY>")) << bash.output();
    bash.mark();
    bash.type(keys);
    const bool shown = bash.shows(expected, std::chrono::seconds(5));
    return shown ? expected : bash.output();
}

TEST(Completion, AnInteractiveBashCompletesCommandsOptionsAndValues)
{
    EXPECT_EQ(completed("outboxctl fai\t", "outboxctl failed"), "outboxctl failed");
    EXPECT_EQ(completed("outboxctl failed re\t", "outboxctl failed retry"),
              "outboxctl failed retry");
    EXPECT_EQ(completed("outboxctl -d shop failed list --st\t", "--state"), "--state");
    EXPECT_EQ(completed("outboxctl failed list --state dis\t", "discarded"), "discarded");
    EXPECT_EQ(completed("outboxctl status --color al\t", "always"), "always");
    EXPECT_EQ(completed("outboxctl emit --file /etc/passw\t", "/etc/passwd"), "/etc/passwd");
    EXPECT_EQ(completed("outboxctl completion b\t", "bash"), "bash");
}

// All that bash offers at a place, one a line.
std::string
offered(const Words &words)
{
    std::string script = "source " + document("bash") + "; COMP_WORDS=(";
    for (const std::string &word : words)
        script += "'" + word + "' ";
    script += "); COMP_CWORD=" + std::to_string(words.size() - 1) +
              "; _outboxctl; printf '%s\\n' \"${COMPREPLY[@]}\"";
    return run_or_throw(Command({"bash", "-c", script}));
}

TEST(Completion, OffersWhatFitsThePlaceAndNothingElse)
{
    const std::string commands = offered({"outboxctl", ""});
    for (const char *name : {"status\n", "lag\n", "emit\n", "tail\n", "failed\n", "pause\n",
                             "resume\n", "doctor\n", "completion\n", "--json\n"})
        EXPECT_NE(commands.find(name), std::string::npos) << name;
    EXPECT_EQ(commands.find("man-page"), std::string::npos);
    EXPECT_EQ(offered({"outboxctl", "--color", ""}), "auto\nalways\nnever\n");
    EXPECT_EQ(offered({"outboxctl", "failed", "r"}), "retry\n");
    EXPECT_EQ(offered({"outboxctl", "tail", "--from"}), "--from-beginning\n");
    EXPECT_EQ(offered({"outboxctl", "pause", "--from"}), "\n");
}

TEST(Completion, TheScriptNamesEveryCommand)
{
    const Ran ran = ctl({}, {"completion", "bash"});
    EXPECT_EQ(ran.status, 0);
    for (const char *word : {"doctor", "failed", "retry", "kafka-config", "state"})
        EXPECT_NE(ran.out.find(word), std::string::npos) << word;
    EXPECT_EQ(ran.out, read_file(document("bash"))) << "made by the build";
    EXPECT_TRUE(run(Command({"bash", "-n", document("bash")})).ok());
}

} // namespace

} // namespace outbox::test
