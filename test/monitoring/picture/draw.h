// The panels of the dashboard as one SVG, drawn by gnuplot.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "../dashboard.h"

namespace outbox::test
{

struct Line
{
    std::string legend;
    std::vector<std::pair<double, double>> points; // seconds since the beginning, value
};

struct DrawnPanel
{
    Panel panel;
    std::vector<Line> lines;
};

// Two panels a row. Throws when gnuplot fails.
void draw(const std::vector<DrawnPanel> &panels, double seconds, const std::filesystem::path &file);

} // namespace outbox::test
