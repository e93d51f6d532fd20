// One measurement of the benchmark, which may be taken in a sitting of its own. To add one, write
// it in bench/measure, its tables in bench/show, and an entry in bench/parts.cpp.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "bench/show/gnuplot.h"
#include "figures.h"
#include "options.h"
#include "reach.h"

namespace outbox::bench
{

class Servers;

struct Measured
{
    Json figures;
    std::vector<Reach> reaches;
};

struct Part
{
    const char *name;  // on the command line; its figures go to build/bench/<name>.json
    const char *about; // heading of its section
    bool in_whole_run; // else only when it is named

    // Roughly how long it takes, in seconds; told beforehand.
    double (*estimate)(const Options &);
    Measured (*measure)(Servers &, const Options &);

    // Tables and sentences in Markdown, for the terminal as for the page.
    std::string (*text)(const Json &figures);

    // Draws into a directory and says what was drawn; null if there is nothing to draw. Gets the
    // figures of all parts that there are, by their names.
    std::vector<Plot> (*draw)(const Json &all, const std::filesystem::path &directory);
};

} // namespace outbox::bench
