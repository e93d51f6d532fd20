// What the documentation must have: each setting, each SQL object, and no link that leads nowhere.
#include "support/tree.h"

#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

using outbox::test::in_source;
namespace fs = std::filesystem;

namespace
{

std::string
content_of(const fs::path &path)
{
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

// The files of a folder with this extension, those of its folders included.
std::vector<fs::path>
files(const std::string &folder, const std::string &extension)
{
    std::vector<fs::path> found;
    for (const fs::directory_entry &entry : fs::recursive_directory_iterator(in_source(folder)))
        if (entry.path().extension() == extension)
            found.push_back(entry.path());
    return found;
}

std::vector<fs::path>
pages()
{
    std::vector<fs::path> found = files("docs", ".md");
    for (const char *path : {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "client/README.md",
                             "bgworker/README.md", "examples/README.md"})
        found.emplace_back(in_source(path));
    return found;
}

// What the first group of the expression matches in the files.
std::set<std::string>
matches(const std::vector<fs::path> &paths, const std::string &expression)
{
    const std::regex pattern(expression);
    std::set<std::string> found;
    for (const fs::path &path : paths)
    {
        const std::string text = content_of(path);
        for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at)
            found.insert((*at)[1]);
    }
    return found;
}

// As GitHub makes it of a heading: small letters, no punctuation, a hyphen for each space.
std::string
anchor_of(const std::string &heading)
{
    std::string anchor;
    for (const char c : heading)
        if (c == ' ')
            anchor += '-';
        else if (c == '-' || c == '_' || (c & 0x80) != 0 ||
                 std::isalnum(static_cast<unsigned char>(c)))
            anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return anchor;
}

bool
has_anchor(const fs::path &page, const std::string &anchor)
{
    std::istringstream lines(content_of(page));
    bool code = false;
    for (std::string line; std::getline(lines, line);)
    {
        if (line.rfind("```", 0) == 0)
            code = !code;
        const std::size_t title = line.find_first_not_of('#');
        if (!code && title != 0 && title != std::string::npos && line[title] == ' ' &&
            anchor_of(line.substr(title + 1)) == anchor)
            return true;
    }
    return false;
}

TEST(Documentation, HasEachSetting)
{
    const std::set<std::string> settings =
        matches(files("extension", ".cpp"), R"re(Define\w+Variable\(\s*"(outbox\.\w+)")re");
    ASSERT_GE(settings.size(), 22U);
    const std::string page = content_of(in_source("docs/settings.md"));
    for (const std::string &name : settings)
        EXPECT_NE(page.find("\n### `" + name + "`\n"), std::string::npos) << name;
}

TEST(Documentation, HasEachObjectOfTheSchema)
{
    std::set<std::string> objects =
        matches(files("sql", ".sql"),
                R"re(\ncreate (?:or replace )?(?:function|view|table|sequence) outbox\.(\w+))re");
    ASSERT_GE(objects.size(), 80U);
    for (int i = 1; i < 7; i++)
        objects.erase("events_" + std::to_string(i)); // "events_0 to events_7"
    const std::set<std::string> page = matches({in_source("docs/sql.md")}, R"re(\b([a-z]\w*))re");
    for (const std::string &name : objects)
        EXPECT_EQ(page.count(name), 1U) << name;
    for (const std::string kind : {"emitter", "consumer", "operator", "monitor"})
        EXPECT_EQ(page.count("grant_" + kind) + page.count("revoke_" + kind), 2U) << kind;
}

TEST(Documentation, HasNoLinkThatLeadsNowhere)
{
    for (const fs::path &page : pages())
        for (const std::string &link : matches({page}, R"re(\]\(([^)\s]+)\))re"))
        {
            if (link.rfind("https://", 0) == 0)
                continue;
            const std::string file = link.substr(0, link.find('#'));
            const fs::path target = file.empty() ? page : page.parent_path() / file;
            EXPECT_TRUE(fs::exists(target)) << page << ": " << link;
            if (link.size() > file.size())
            {
                EXPECT_TRUE(has_anchor(target, link.substr(file.size() + 1)))
                    << page << ": " << link;
            }
        }
}

} // namespace
