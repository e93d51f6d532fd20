// Passwords stay out of what outboxctl says, wherever they come from and whoever quotes them.
#include <filesystem>

#include "ctl.h"
#include "support/fake_server.h"

namespace outbox::test
{

namespace
{

constexpr const char *kSecret = "SeCrEtWord";

void
expect_hidden(const Ran &ran, const std::string &where)
{
    const std::string all = ran.out + ran.err;
    EXPECT_NE(ran.status, 0) << where;
    EXPECT_NE(ran.err, "") << where;
    EXPECT_EQ(all.find(kSecret), std::string::npos) << where << "\n" << all;
    EXPECT_EQ(all.find("SeCrEt"), std::string::npos) << where << ", a part of it\n" << all;
}

// A server that quotes what it can.
enum class Quotes
{
    kAtLogin,   // the password, refusing it
    kMeanwhile, // the password in a notice, before the client can be told where to put it
    kInErrors,  // the password in all fields of the first statement's error
    kNames,     // what the client said at first, cut off as PostgreSQL does
    kWhole,     // the same, not cut off
};

void
quote(const Conversation &client, Quotes quotes)
{
    const std::string startup = client.startup();
    std::string said;
    if (quotes == Quotes::kNames || quotes == Quotes::kWhole)
    {
        const size_t most = quotes == Quotes::kNames ? 63 : std::string::npos;
        for (size_t at = 4; at < startup.size(); at = startup.find('\0', at) + 1)
            said += "\"" + std::string(startup.c_str() + at).substr(0, most) + "\" ";
        (void) client.say(report("FATAL", "3D000", said));
        return;
    }
    char type = 0;
    if (!client.say(message('R', std::string("\0\0\0\3", 4))) || !client.hear(type, said))
        return;
    said = "you sent " + std::string(said.c_str());
    if (quotes == Quotes::kAtLogin)
        (void) client.say(report("FATAL", "28P01", said));
    else
    {
        const bool meanwhile = quotes == Quotes::kMeanwhile;
        client.serve([&](const std::string &) { return report("ERROR", "XX000", said); }, 1 << 20,
                     kLetIn + (meanwhile ? report("WARNING", "01000", said, 'N') : "") + kReady);
    }
}

class Secrets : public testing::Test
{
protected:
    static FakeServer server(Quotes quotes)
    {
        return FakeServer([quotes](const Conversation &client) { quote(client, quotes); });
    }
};

TEST_F(Secrets, OfEverySourceAreInNothingThatAServerQuotes)
{
    const std::filesystem::path dir = run_dir() / unique_name("secrets");
    std::filesystem::create_directory(dir);
    const std::string pass = dir / ".pgpass";
    write_file(pass, std::string("# nothing\n*:*:d\\:d:*:other\n*:*:*:*:") + kSecret + "\n");
    std::filesystem::permissions(pass, std::filesystem::perms::owner_read);
    const std::string services = dir / "services";
    write_file(services,
               std::string("[its]\npassword=") + kSecret + "\n[file]\npassfile=" + pass + "\n");
    struct Source
    {
        Environment environment;
        std::string conninfo;
    };
    for (const Quotes quotes : {Quotes::kAtLogin, Quotes::kMeanwhile, Quotes::kInErrors})
    {
        const FakeServer quoting = server(quotes);
        const std::string uri = "127.0.0.1:" + std::to_string(quoting.port()) + "/d";
        for (const Source &source :
             std::vector<Source>{{{{"PGPASSWORD", kSecret}}, ""},
                                 {{{"PGPASSFILE", pass}}, ""},
                                 {{{"HOME", dir}}, ""},
                                 {{{"PGSERVICEFILE", services}, {"PGSERVICE", "its"}}, ""},
                                 {{{"PGSERVICEFILE", services}}, "service=its"},
                                 {{}, std::string("password=") + kSecret},
                                 {{}, std::string("password = '") + kSecret + " with a blank'"},
                                 {{}, "passfile=" + pass},
                                 {{}, std::string("postgresql://u:SeCrEt%57ord@") + uri},
                                 {{}, std::string("postgres://u@") + uri + "?password=" + kSecret}})
            for (const bool json : {false, true})
            {
                Environment environment = quoting.environment();
                environment["PGPASSFILE"] = "/dev/null";
                if (source.environment.count("HOME") != 0)
                    environment.erase("PGPASSFILE");
                for (const auto &[name, value] : source.environment)
                    environment[name] = value;
                Words words = {"status"};
                if (!source.conninfo.empty())
                    words.insert(words.end(), {"-d", source.conninfo});
                if (json)
                    words.emplace_back("--json");
                const Ran ran = ctl(environment, words);
                expect_hidden(ran, source.conninfo);
                EXPECT_NE(ran.err.find("you sent"), std::string::npos) << ran.err;
            }
    }
}

// A connection string where a name belongs, as by a variable that holds the wrong thing.
TEST_F(Secrets, InNamesAreInNothingThatIsSaidOfThem)
{
    const std::string secret = kSecret;
    const std::vector<std::string> values = {
        "postgresql://me:" + secret + "@h/db",
        "postgresql://me:" + secret + ",two@h/db",
        "postgresql://me:" + secret + "@two@h/db",
        "postgresql://me:SeCrEt%57ord@h/db",
        "postgresql://someone-with-a-long-name:" + std::string(16, 'x') + secret + secret + "@h/db",
        "http://me:" + secret + "@h",
        "me:" + secret + "@h",
        "me:" + secret,
        "host=h password=" + secret,
        "host=h password = '" + secret + " two' port=1",
        "host=h password=one " + secret};
    for (const Quotes quotes : {Quotes::kNames, Quotes::kWhole})
    {
        const FakeServer quoting = server(quotes);
        for (const std::string &value : values)
        {
            for (const char *name : {"PGDATABASE", "PGUSER", "PGHOST", "PGHOSTADDR", "PGSERVICE",
                                     "PGAPPNAME", "PGOPTIONS", "PGPORT", "PGSSLMODE"})
            {
                const bool quoted_as_name =
                    std::string(name) != "PGAPPNAME" && std::string(name) != "PGOPTIONS";
                if (value == "me:" + secret && !quoted_as_name)
                    continue; // a colon may be there
                if (quotes == Quotes::kWhole && std::string(name) != "PGDATABASE")
                    continue; // only cut off or not makes a difference
                Environment environment = quoting.environment();
                environment[name] = value;
                expect_hidden(ctl(environment, {"status"}), name + ("=" + value));
            }
            // The same code learns them; the longest run of the test is not for it.
            for (const char *name : {"dbname", "host", "service"})
            {
                if (quotes == Quotes::kWhole)
                    break;
                std::string quoted;
                for (const char c : value)
                    quoted += c == '\'' ? "\\'" : std::string(1, c);
                expect_hidden(
                    ctl(quoting.environment(), {"status", "-d", name + ("='" + quoted + "'")}),
                    name + ("=" + value));
            }
        }
    }
}

// As of somebody who takes it for psql, or forgets what an option is called.
TEST(SecretWords, OfTheCommandLineAreNotQuoted)
{
    const std::string secret = kSecret;
    const std::vector<Words> cases = {
        {secret},
        {"-W", secret},
        {"-W", secret, "status"},
        {"-W" + secret, "status"},
        {"--password", secret, "status"},
        {"--password=" + secret, "status"},
        {"status", "-p", secret},
        {"status", "-p" + secret},
        {"status", secret, "-p"},
        {"status", "--password", secret},
        {"status", "--password=" + secret},
        {"status", "-wp", secret},
        {"status", "-wp" + secret},
        {"status", secret},
        {"status", "--", secret},
        {"status", "--json=" + secret},
        {"status", "--watch=" + secret},
        {"failed", secret},
        {"failed", "list", secret},
        {"failed", "-p", secret, "list"},
        {"emit", "a", "1", "x", "{}", secret},
        {"emit", "a", "1", "x", "{}", "-k", secret + "\xff"},
        {"tail", "--bootstrap", "127.0.0.1:1", "-t", "x", "-X", secret},
        {"tail", "-X", "sasl.password=" + secret + "\xff"},
        {"completion", "bash", secret}};
    for (const Words &words : cases)
        for (const bool json : {false, true})
        {
            Words all = words;
            if (json)
                all.insert(all.begin(), "--json");
            std::string where;
            for (const std::string &word : all)
                where += word + " ";
            const Ran ran = ctl({{"PGHOST", "127.0.0.1"}, {"PGPORT", "1"}}, all);
            expect_hidden(ran, where);
            EXPECT_EQ(ran.status, 2) << where << ran.err;
        }
    const Ran ran = ctl({}, {"status", "--password=" + secret});
    EXPECT_NE(ran.err.find("there is no option \"--password\""), std::string::npos) << ran.err;
}

// Where the text is cut off must not decide what is known as a password.
TEST(SecretWords, AreHiddenBeforeALongErrorIsCutOff)
{
    for (const bool login : {true, false})
        for (const int about : {2000, 8192})
            for (int length = about - 120; length <= about; length += 4)
            {
                const std::string said =
                    std::string(static_cast<size_t>(length), 'x') + kSecret + " and more";
                const FakeServer server(
                    [&](const Conversation &client)
                    {
                        if (client.startup().empty())
                            return;
                        if (login)
                            (void) client.say(report("FATAL", "28P01", said));
                        else
                            client.serve([&](const std::string &)
                                         { return report("ERROR", "XX000", said); });
                    });
                Environment environment = server.environment();
                environment["PGPASSWORD"] = kSecret;
                expect_hidden(ctl(environment, {"status"}), std::to_string(length));
            }
}

} // namespace

} // namespace outbox::test
