#include "contract_markdown.h"

#include "units.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

namespace outbox::ctl
{

namespace
{

constexpr std::size_t kLongestValue = 200;

bool
begins(const std::string &line, const std::string &with)
{
    return line.rfind(with, 0) == 0;
}

bool
blank(const std::string &line)
{
    return line.find_first_not_of(" \t") == std::string::npos;
}

std::string
trimmed(const std::string &text)
{
    const std::size_t begin = text.find_first_not_of(" \t");
    return begin == std::string::npos
               ? ""
               : text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// Lines without their ends, "\n" or "\r\n".
std::vector<std::string>
lines_of(const std::string &text)
{
    std::vector<std::string> lines;
    for (std::size_t begin = 0; begin < text.size();)
    {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        lines.push_back(text.substr(begin, end - begin));
        if (!lines.back().empty() && lines.back().back() == '\r')
            lines.back().pop_back();
        begin = end + 1;
    }
    return lines;
}

// Whether every line is text that a person can see.
bool
check_characters(const std::vector<std::string> &lines, Problems &problems)
{
    if (!lines.empty() && begins(lines[0], "\xEF\xBB\xBF"))
    {
        problems.push_back({1, "the file begins with a byte order mark; save it as plain UTF-8"});
        return false;
    }
    for (std::size_t i = 0; i < lines.size(); i++)
    {
        const int number = static_cast<int>(i) + 1;
        if (!is_utf8(lines[i]))
        {
            problems.push_back({number, "this line is not UTF-8"});
            return false;
        }
        const auto control =
            std::find_if(lines[i].begin(), lines[i].end(),
                         [](char c) { return (c >= 0 && c < ' ' && c != '\t') || c == 127; });
        if (control != lines[i].end())
        {
            problems.push_back(
                {number, fmt::format("this line holds the control character 0x{:02x}",
                                     static_cast<unsigned char>(*control))});
            return false;
        }
    }
    return true;
}

// Why YAML would take the value for something else than this text; empty when it would not.
std::string
not_plain(const std::string &value, bool is_text)
{
    if (value.empty())
        return "has no value";
    if (value.size() > kLongestValue)
        return fmt::format("is longer than {} bytes", kLongestValue);
    if (std::string("\"'[]{}&*!|>%@`#,?:-").find(value[0]) != std::string::npos)
        return fmt::format("begins with {}; write a value that needs no quotes", value[0]);
    if (value.find(": ") != std::string::npos || value.find(" #") != std::string::npos ||
        value.back() == ':')
        return "holds \": \" or \" #\", which mean something else in YAML";
    // By YAML 1.1, too, as readers differ.
    static const std::regex kOther(
        "~|null|true|false|yes|no|on|off|y|n|=|<<|[+]?[.](inf|nan)|0[xob][0-9a-f_]+|"
        "[+]?[.]?[0-9][0-9_.:]*(e[-+]?[0-9]+)?|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([t ].*)?",
        std::regex::icase | std::regex::optimize);
    if (is_text && std::regex_match(value, kOther))
        return "is no text in YAML; write more than that";
    return "";
}

void
read_field(const std::string &line, int number, std::vector<Field> &fields, Problems &problems)
{
    if (line.find('\t') != std::string::npos)
        problems.push_back(
            {number, "this line holds a tab; write blanks, as readers of YAML differ in tabs"});
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || colon == 0 ||
        line.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") != colon ||
        (colon + 1 < line.size() && !blank(line.substr(colon + 1, 1))))
    {
        problems.push_back({number, "this is no \"key: value\""});
        return;
    }
    const Field field{line.substr(0, colon), trimmed(line.substr(colon + 1)), number};
    const std::string reason = not_plain(field.value, field.key != "schema_version");
    if (!reason.empty())
        problems.push_back({number, "\"" + field.key + "\" " + reason});
    fields.push_back(field);
}

// Reads a block between lines "---" at the top, and returns how many lines it takes.
std::size_t
read_front_matter(const std::vector<std::string> &lines, std::vector<Field> &fields,
                  Problems &problems)
{
    if (lines.empty() || lines[0] != "---")
    {
        problems.push_back({1, "the first line has to be \"---\", and front matter to follow"});
        return 0;
    }
    const auto end = std::find(lines.begin() + 1, lines.end(), "---");
    if (end == lines.end())
    {
        problems.push_back({1, "the front matter is not closed by a line \"---\""});
        return lines.size();
    }
    const auto count = static_cast<std::size_t>(end - lines.begin());
    for (std::size_t i = 1; i < count; i++)
        read_field(lines[i], static_cast<int>(i) + 1, fields, problems);
    return count + 1;
}

// Sections from lines, one after the other.
class Body
{
public:
    Body(const std::vector<std::string> &lines, Problems &problems)
        : lines_(lines), problems_(problems)
    {
    }

    std::vector<Section> read(std::size_t begin)
    {
        for (next_ = begin; next_ < lines_.size(); next_++)
            take(lines_[next_]);
        return std::move(sections_);
    }

private:
    int number() const { return static_cast<int>(next_) + 1; }

    void take(const std::string &line)
    {
        const std::string text = trimmed(line);
        if (begins(text, "```"))
            take_fence(line);
        else if (begins(line, "#"))
            take_heading(line);
        else if (!blank(line))
            take_prose(line, text);
    }

    void take_heading(const std::string &line)
    {
        const std::size_t level = std::min(line.find_first_not_of('#'), line.size());
        const std::string title = trimmed(line.substr(level));
        if (level > 6 || title.empty() || (line[level] != ' ' && line[level] != '\t'))
        {
            problems_.push_back({number(), "a heading is one to six #, a blank and a title"});
            return;
        }
        sections_.push_back({static_cast<int>(level), title, number(), false, {}});
    }

    void take_prose(const std::string &line, const std::string &text)
    {
        if (begins(text, "~~~"))
            problems_.push_back({number(), "a block is fenced with ```, not with ~~~"});
        else if (begins(text, "# ") || begins(text, "## ") || begins(text, "### "))
            problems_.push_back({number(), "a heading begins at the beginning of its line"});
        else if (text.find_first_not_of('=') == std::string::npos ||
                 text.find_first_not_of('-') == std::string::npos)
            problems_.push_back({number(), "lines of = or - make headings of what is above; "
                                           "headings are written with #"});
        else if (line.find("<!--") != std::string::npos)
            problems_.push_back({number(), "comments are not read by those who read the contract"});
        if (sections_.empty())
            problems_.push_back({number(), "text stands before the first heading"});
        else
            sections_.back().prose = true;
    }

    void take_fence(const std::string &line)
    {
        const int opened = number();
        if (!begins(line, "```"))
            problems_.push_back({opened, "a fence begins at the beginning of its line"});
        const std::string opening = trimmed(line);
        const std::size_t ticks = opening.find_first_not_of('`');
        Fence fence{ticks == std::string::npos ? "" : opening.substr(ticks), opened + 1, ""};
        for (next_++; next_ < lines_.size(); next_++)
        {
            if (trimmed(lines_[next_]) == opening.substr(0, ticks))
            {
                if (!sections_.empty())
                    sections_.back().fences.push_back(std::move(fence));
                else
                    problems_.push_back({opened, "a block stands before the first heading"});
                return;
            }
            fence.text += lines_[next_] + "\n";
        }
        problems_.push_back({opened, "this block is not closed"});
    }

    const std::vector<std::string> &lines_;
    Problems &problems_;
    std::vector<Section> sections_;
    std::size_t next_ = 0;
};

} // namespace

Markdown
read_markdown(const std::string &text, Problems &problems)
{
    const std::vector<std::string> lines = lines_of(text);
    Markdown result;
    if (!check_characters(lines, problems))
        return result;
    const std::size_t body = read_front_matter(lines, result.front_matter, problems);
    result.sections = Body(lines, problems).read(body);
    return result;
}

} // namespace outbox::ctl
