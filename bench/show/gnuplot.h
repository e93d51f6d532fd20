// Pictures, drawn by gnuplot.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "bench/support/samples.h"

namespace outbox::bench
{

struct Plot
{
    std::string file; // "drain.svg"
    std::string title;
};

// How an axis counts.
enum class Scale
{
    kLinear, // from zero
    kLogarithmic
};

struct Axis
{
    std::string label;
    Scale scale = Scale::kLinear;
};

struct Line
{
    std::string title;
    std::vector<std::pair<double, double>> points;
    bool broken = false; // of the same colour as the line before it, and not in the key
};

// Over x, lines with points. Throws, as the others do, when gnuplot fails.
Plot draw_lines(const std::filesystem::path &directory, const Plot &plot, const Axis &x,
                const Axis &y, const std::vector<Line> &lines);

// From left to right, each with a mark from its lowest to its highest round.
Plot draw_bars(const std::filesystem::path &directory, const Plot &plot, const std::string &unit,
               const std::vector<std::pair<std::string, Spread>> &bars);

// The same of parts on top of each other, whose names are `parts`.
Plot draw_stacks(const std::filesystem::path &directory, const Plot &plot, const std::string &unit,
                 const std::vector<std::string> &parts,
                 const std::vector<std::pair<std::string, std::vector<double>>> &stacks);

} // namespace outbox::bench
