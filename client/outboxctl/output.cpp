#include "output.h"

#include "standard_output.h"
#include "terminal.h"
#include "units.h"

#include <fmt/color.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace outbox::ctl
{

namespace
{

constexpr const char *kGap = "  ";
constexpr std::size_t kSmallestLast = 20; // columns that a last column keeps on any terminal

fmt::text_style
look_of(Style style)
{
    switch (style)
    {
    case Style::kBold:
        return fmt::emphasis::bold | fmt::text_style();
    case Style::kFaint:
        return fmt::emphasis::faint | fmt::text_style();
    case Style::kGood:
        return fmt::fg(fmt::terminal_color::green);
    case Style::kWarning:
        return fmt::fg(fmt::terminal_color::yellow);
    case Style::kBad:
        return fmt::emphasis::bold | fmt::fg(fmt::terminal_color::red);
    case Style::kPlain:
        break;
    }
    return {};
}

} // namespace

std::string
Output::styled(const std::string &text, Style style) const
{
    return colours_ && style != Style::kPlain ? fmt::format(look_of(style), "{}", text) : text;
}

void
Output::line(const std::string &text) const
{
    write_output(text + "\n");
}

void
Output::document(const Json &json) const
{
    line(stdout_is_terminal() ? to_lines(json) : to_line(json));
}

void
Output::record(const Json &json) const
{
    line(to_line(json));
    flush_output();
}

void
Output::remark(const std::string &text)
{
    flush_output(); // in order where both go to one terminal
    // There is no other place to report a failure.
    (void) std::fprintf(stderr, "outboxctl: %s\n", text.c_str());
}

std::string
Table::row_line(const Output &output, const std::vector<Cell> &cells,
                const std::vector<std::size_t> &widths) const
{
    std::string line;
    for (std::size_t i = 0; i < cells.size(); i++)
    {
        const bool last = i + 1 == cells.size();
        const std::string text = last ? shortened(cells[i].text, widths[i]) : cells[i].text;
        const std::string blanks(widths[i] - std::min(widths[i], columns_of(text)), ' ');
        const std::string shown = output.styled(text, cells[i].style);
        line += i == 0 ? "" : kGap;
        if (columns_[i].align == Align::kRight)
            line += blanks + shown;
        else
            line += last ? shown : shown + blanks;
    }
    return line;
}

std::vector<std::string>
Table::lines(const Output &output) const
{
    std::vector<Cell> headings;
    std::vector<std::size_t> widths;
    std::size_t before_last = 0;
    for (std::size_t i = 0; i < columns_.size(); i++)
    {
        headings.emplace_back(columns_[i].heading, Style::kBold);
        std::size_t width = columns_of(columns_[i].heading);
        for (const std::vector<Cell> &row : rows_)
            width = std::max(width, columns_of(row[i].text));
        if (i + 1 == columns_.size() && terminal_width() > 0)
        {
            const auto all = static_cast<std::size_t>(terminal_width());
            const std::size_t left = all > before_last ? all - before_last : 0;
            width = std::min(width, std::max(left, kSmallestLast));
        }
        widths.push_back(width);
        before_last += width + std::string_view(kGap).size();
    }
    std::vector<std::string> result = {row_line(output, headings, widths)};
    for (const std::vector<Cell> &row : rows_)
        result.push_back(row_line(output, row, widths));
    return result;
}

void
Table::print(const Output &output) const
{
    for (const std::string &text : lines(output))
        output.line(text);
}

std::vector<std::string>
List::lines(const Output &output) const
{
    std::size_t width = 0;
    for (const auto &[name, value] : items_)
        width = std::max(width, columns_of(name));
    std::vector<std::string> result;
    const std::size_t begin = width + std::string_view(kGap).size();
    const auto all = static_cast<std::size_t>(terminal_width());
    const std::size_t room =
        all == 0 ? std::string::npos : std::max(all > begin ? all - begin : 0, kSmallestLast);
    for (const auto &[name, value] : items_)
    {
        std::string left =
            output.styled(name, Style::kFaint) + std::string(width - columns_of(name), ' ') + kGap;
        for (const std::string &line : wrapped(value.text, room))
        {
            result.push_back(left + output.styled(line, value.style));
            left = std::string(begin, ' ');
        }
    }
    return result;
}

void
List::print(const Output &output) const
{
    for (const std::string &text : lines(output))
        output.line(text);
}

std::vector<std::string>
wrapped(const std::string &text, std::size_t width)
{
    std::vector<std::string> lines(1);
    for (std::size_t begin = 0; begin <= text.size();)
    {
        const std::size_t end = std::min(text.find(' ', begin), text.size());
        const std::string word = text.substr(begin, end - begin);
        if (!lines.back().empty() && columns_of(lines.back()) + 1 + columns_of(word) > width)
            lines.emplace_back();
        lines.back() += (lines.back().empty() ? "" : " ") + word;
        begin = end + 1;
    }
    return lines;
}

} // namespace outbox::ctl
