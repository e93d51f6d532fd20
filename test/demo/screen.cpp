#include "screen.h"

#include <cstdio>
#include <cstdlib>

#include <fmt/color.h>
#include <fmt/format.h>
#include <unistd.h>

namespace outbox::demo
{

namespace
{

const auto kPlain = fmt::text_style();

// Lines of headers are broken here, so that they fit a window of a hundred columns.
constexpr size_t kHeaderWidth = 87;

std::string
or_null(const std::optional<std::string> &value)
{
    return value.value_or("NULL");
}

} // namespace

Screen::Screen()
{
    const char *no_color = std::getenv("NO_COLOR");
    colours_ = isatty(STDOUT_FILENO) != 0 && (no_color == nullptr || *no_color == '\0');
    // Lines appear as they are written, also in a pipe.
    (void) std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
}

void
Screen::heading(const std::string &text) const
{
    fmt::print("\n{}\n\n", fmt::styled(text, colours_ ? fmt::emphasis::bold | kPlain : kPlain));
}

void
Screen::text(const std::string &text) const
{
    fmt::print("{}\n", text);
}

void
Screen::blank() const
{
    fmt::print("\n");
}

void
Screen::item(const std::string &name, const std::string &value) const
{
    fmt::print("  {:<12}{}\n", name, value);
}

void
Screen::sql(const std::string &statement, const std::string &result) const
{
    const auto code = colours_ ? fmt::fg(fmt::terminal_color::cyan) : kPlain;
    const auto comment = colours_ ? fmt::fg(fmt::terminal_color::bright_black) : kPlain;
    std::string indented;
    for (const char c : statement)
        indented += c == '\n' ? "\n    " : std::string(1, c);
    fmt::print("    {}", fmt::styled(indented, code));
    if (!result.empty())
        fmt::print("  {}", fmt::styled("-- " + result, comment));
    fmt::print("\n");
}

void
Screen::command(const std::string &line) const
{
    fmt::print("    {}\n",
               fmt::styled(line, colours_ ? fmt::fg(fmt::terminal_color::cyan) : kPlain));
}

void
Screen::proof(const std::string &text) const
{
    fmt::print("  {} {}\n",
               fmt::styled("ok", colours_ ? fmt::fg(fmt::terminal_color::green) : kPlain), text);
}

void
Screen::record(const test::Record &record, const std::string &when) const
{
    fmt::print("  A consumer receives, {}:\n", when);
    item("  topic",
         fmt::format("{}, partition {}, offset {}", record.topic, record.partition, record.offset));
    item("  key", or_null(record.key));
    item("  value", or_null(record.value));
    std::string label = "  headers";
    for (const auto &[name, value] : record.headers)
    {
        item(label, fmt::format("{} = {}", name, or_null(value)));
        label.clear();
    }
}

void
Screen::short_record(const test::Record &record, const std::string &when) const
{
    fmt::print("  {:>8}   partition {}   key {}   {}\n", when, record.partition,
               or_null(record.key), or_null(record.value));
    const auto faint = colours_ ? fmt::fg(fmt::terminal_color::bright_black) : kPlain;
    std::string line;
    for (const auto &[name, value] : record.headers)
    {
        const std::string header = name + "=" + or_null(value);
        if (!line.empty() && line.size() + header.size() + 2 > kHeaderWidth)
        {
            fmt::print("{:13}{}\n", "", fmt::styled(line, faint));
            line.clear();
        }
        line += (line.empty() ? "" : "  ") + header;
    }
    fmt::print("{:13}{}\n", "", fmt::styled(line, faint));
}

std::string
in_milliseconds(double milliseconds)
{
    return fmt::format("{:.1f} ms", milliseconds);
}

} // namespace outbox::demo
