// A table as Markdown has it, with its columns below each other for those who read it as text.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace outbox::bench
{

class Table
{
public:
    explicit Table(std::vector<std::string> head) : rows_{std::move(head)} {}

    void add(std::vector<std::string> row)
    {
        row.resize(rows_.front().size());
        rows_.push_back(std::move(row));
    }

    // The first column to the left, the others to the right.
    std::string text() const
    {
        std::vector<size_t> widths(rows_.front().size(), 4);
        for (const std::vector<std::string> &row : rows_)
            for (size_t column = 0; column < row.size(); column++)
                widths[column] = std::max(widths[column], row[column].size());
        std::string all;
        for (size_t number = 0; number < rows_.size(); number++)
        {
            all += fmt::format("| {:<{}} |", rows_[number][0], widths[0]);
            for (size_t column = 1; column < widths.size(); column++)
                all += fmt::format(" {:>{}} |", rows_[number][column], widths[column]);
            all += "\n";
            if (number == 0)
                all += rule(widths);
        }
        return all + "\n";
    }

private:
    static std::string rule(const std::vector<size_t> &widths)
    {
        std::string text = "|" + std::string(widths[0] + 2, '-') + "|";
        for (size_t column = 1; column < widths.size(); column++)
            text += std::string(widths[column] + 1, '-') + ":|";
        return text + "\n";
    }

    std::vector<std::vector<std::string>> rows_;
};

} // namespace outbox::bench
