// What pg_buildext, which makes debian/control and debian/tests/control, silently takes amiss.
#include "support/tree.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

using outbox::test::in_source;

namespace
{

std::set<std::string>
words(const std::string &file, const std::string &expression)
{
    std::ifstream stream(in_source(file));
    std::ostringstream text;
    text << stream.rdbuf();
    const std::string content = text.str();
    const std::regex pattern(expression);
    std::set<std::string> found;
    for (std::sregex_iterator at(content.begin(), content.end(), pattern), end; at != end; ++at)
        found.insert(at->str());
    return found;
}

// It replaces the first one everywhere, then misses the other one, and ends without a word.
TEST(Packages, NoNameWithANumberInTheTestsIsThePartOfAnother)
{
    const std::set<std::string> names =
        words("debian/tests/control.in", "[a-zA-Z0-9-]*PGVERSION[a-zA-Z0-9-]*");
    ASSERT_FALSE(names.empty());
    const std::set<std::string> packages = words("debian/control.in", "[a-z-]*PGVERSION[a-z-]*");
    for (const std::string &name : names)
    {
        EXPECT_EQ(packages.count(name), 1U) << name;
        for (const std::string &other : names)
            EXPECT_TRUE(name == other || other.find(name) == std::string::npos)
                << name << " in " << other;
    }
}

} // namespace
