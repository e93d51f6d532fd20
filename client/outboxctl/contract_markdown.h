// The small part of Markdown that event contracts are written in: front matter, headings, prose,
// fenced blocks.
#pragma once

#include <string>
#include <vector>

namespace outbox::ctl
{

// What is wrong with a file, and in which of its lines, counted from 1.
struct Problem
{
    int line;
    std::string message;
};
using Problems = std::vector<Problem>;

// ```language … ```
struct Fence
{
    std::string language;
    int line; // of the first line of the text
    std::string text;
};

// A heading, and what stands below it up to the next one.
struct Section
{
    int level; // 1 to 6
    std::string title;
    int line;
    bool prose; // whether there is text besides the fences
    std::vector<Fence> fences;
};

// "key: value"
struct Field
{
    std::string key;
    std::string value;
    int line;
};

struct Markdown
{
    std::vector<Field> front_matter;
    std::vector<Section> sections;
};

// Reads a text that is refused as a whole when it is no clean UTF-8 text. Whatever else does not
// fit is left out and named in `problems`.
Markdown read_markdown(const std::string &text, Problems &problems);

} // namespace outbox::ctl
