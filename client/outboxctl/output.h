// What outboxctl prints: styled text and tables for a person, JSON for a program.
#pragma once

#include "json.h"

#include <cstddef>
#include <string>
#include <vector>

namespace outbox::ctl
{

enum class Style
{
    kPlain,
    kBold,
    kFaint,
    kGood,
    kWarning,
    kBad,
};

struct Cell
{
    Cell(std::string words, Style look = Style::kPlain) : text(std::move(words)), style(look) {}
    Cell(const char *words) : text(words) {}

    std::string text;
    Style style = Style::kPlain;
};

class Output
{
public:
    Output(bool json, bool colours) : json_(json), colours_(colours) {}

    bool json() const { return json_; }

    // The text in this style, or as it is when there are no colours.
    std::string styled(const std::string &text, Style style) const;

    void line(const std::string &text = "") const;

    // One JSON document: indented on a terminal, else on one line.
    void document(const Json &json) const;

    // Several: one a line, at once.
    void record(const Json &json) const;

    // "outboxctl: …" on stderr.
    static void remark(const std::string &text);

private:
    bool json_;
    bool colours_;
};

// Columns under headings. The last column is cut to the terminal's width.
class Table
{
public:
    enum class Align
    {
        kLeft,
        kRight,
    };
    struct Column
    {
        std::string heading;
        Align align = Align::kLeft;
    };

    explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
    void add(std::vector<Cell> cells) { rows_.push_back(std::move(cells)); }
    std::vector<std::string> lines(const Output &output) const;
    void print(const Output &output) const;

private:
    std::string row_line(const Output &output, const std::vector<Cell> &cells,
                         const std::vector<std::size_t> &widths) const;

    std::vector<Column> columns_;
    std::vector<std::vector<Cell>> rows_;
};

// "name  value" under each other; long values are broken at the terminal's width.
class List
{
public:
    void add(const std::string &name, Cell value) { items_.emplace_back(name, std::move(value)); }
    std::vector<std::string> lines(const Output &output) const;
    void print(const Output &output) const;

private:
    std::vector<std::pair<std::string, Cell>> items_;
};

// Breaks a text at blanks into lines of at most `width` columns.
std::vector<std::string> wrapped(const std::string &text, std::size_t width);

} // namespace outbox::ctl
