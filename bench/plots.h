// Pictures of what a run measured, drawn by gnuplot.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "figures.h"

namespace outbox::bench
{

struct Plot
{
    std::string file; // "drain.svg"
    std::string title;
};

// Draws what the results have something about into `directory`, and says what was drawn. Throws
// when gnuplot fails.
std::vector<Plot> draw_plots(const Json &results, const std::filesystem::path &directory);

} // namespace outbox::bench
