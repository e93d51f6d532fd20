// The examples' lines that docs/languages.md shows are those of the examples.
#include "support/tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

using outbox::test::in_source;

namespace
{

using Lines = std::vector<std::string>;

Lines
lines_of(const std::string &path)
{
    std::ifstream file(in_source(path));
    Lines lines;
    for (std::string line; std::getline(file, line);)
        lines.push_back(line);
    return lines;
}

bool
ends_with(const std::string &line, const std::string &end)
{
    return line.size() >= end.size() &&
           line.compare(line.size() - end.size(), end.size(), end) == 0;
}

// The lines between "begin: name" and "end: name", without what all of them are indented by.
Lines
region(const std::string &path, const std::string &name)
{
    const Lines all = lines_of(path);
    const auto has = [](const std::string &mark)
    { return [mark](const std::string &line) { return ends_with(line, mark); }; };
    auto begin = std::find_if(all.begin(), all.end(), has(" begin: " + name));
    auto end = std::find_if(begin, all.end(), has(" end: " + name));
    if (end == all.end())
        return {"there is no region " + name + " in " + path};
    ++begin;
    while (begin != end && begin->empty())
        ++begin;
    while (end != begin && (end - 1)->empty())
        --end;
    Lines lines(begin, end);
    const std::size_t indent = lines.empty() ? 0 : lines[0].find_first_not_of(' ');
    for (std::string &line : lines)
        line.erase(0, std::min(indent, line.size()));
    return lines;
}

// Adds each block below a comment "<!-- path: region -->" to `wrong` unless it is that region.
// Returns their number.
int
compare_blocks(const std::string &page, Lines &wrong)
{
    const Lines lines = lines_of(page);
    int blocks = 0;
    for (auto line = lines.begin(); line != lines.end(); ++line)
    {
        const std::size_t colon = line->find(": ");
        if (line->rfind("<!-- examples/", 0) != 0 || colon == std::string::npos)
            continue;
        ++blocks;
        const std::string path = line->substr(5, colon - 5);
        const std::string name = line->substr(colon + 2, line->size() - colon - 6);
        const auto begin = std::min(line + 2, lines.end());
        const auto end = std::find(begin, lines.end(), "```");
        if (Lines(begin, end) != region(path, name))
            wrong.push_back(path + ": " + name);
    }
    return blocks;
}

} // namespace

TEST(Languages, ThePageShowsTheLinesOfTheExamples)
{
    Lines wrong;
    EXPECT_EQ(compare_blocks("docs/languages.md", wrong), 13);
    EXPECT_EQ(wrong, Lines());
}
