#include "gnuplot.h"

#include <algorithm>

#include <fmt/format.h>

#include "support/process.h"
#include "support/workspace.h"

namespace outbox::bench
{

namespace
{

constexpr const char *kHead = "set encoding utf8\n"
                              "set terminal svg size 800,400 background rgb 'white' "
                              "font 'sans-serif,12' noenhanced\n"
                              "set grid ytics lc rgb '#dddddd'\n"
                              "set border 3\n"
                              "set tics nomirror\n"
                              "set format y \"%.0s%c\"\n";
constexpr const char *kColours[] = {"#336791", "#d1495b", "#edae49", "#66a182",
                                    "#8d6a9f", "#777777", "#2e4057", "#b08968"};

constexpr const char *kShades[] = {"#336791", "#9ab8d0", "#bbbbbb"}; // of parts of a whole

const char *
colour(size_t number)
{
    return kColours[number % std::size(kColours)];
}

Plot
draw(const std::filesystem::path &directory, const Plot &plot, const std::string &program)
{
    std::filesystem::create_directories(directory);
    const std::string svg = std::filesystem::absolute(directory / plot.file).string();
    const std::filesystem::path file = test::run_dir() / (plot.file + ".gnuplot");
    test::write_file(file,
                     fmt::format("set output '{}'\nset title \"{}\"\n", svg, plot.title) + program);
    test::run_or_throw(test::Command({"gnuplot", file.string()}));
    return plot;
}

// The words of a title below each other, so that long ones fit beside their neighbours.
std::string
wrapped(const std::string &title)
{
    constexpr size_t kWidth = 14;
    std::string text;
    size_t line = 0;
    for (size_t begin = 0; begin < title.size();)
    {
        const size_t end = std::min(title.find(' ', begin), title.size());
        if (line > 0 && line + 1 + (end - begin) > kWidth)
        {
            text += "\\n";
            line = 0;
        }
        else if (line > 0)
        {
            text += ' ';
            line++;
        }
        text += title.substr(begin, end - begin);
        line += end - begin;
        begin = end + 1;
    }
    return text;
}

std::string
axis_program(char name, const Axis &axis)
{
    std::string text = fmt::format("set {}label \"{}\"\n", name, axis.label);
    if (axis.scale == Scale::kLogarithmic)
        text += fmt::format("set logscale {}\n", name);
    else
        text += fmt::format("set {}range [0:*]\n", name);
    return text;
}

} // namespace

Plot
draw_lines(const std::filesystem::path &directory, const Plot &plot, const Axis &x, const Axis &y,
           const std::vector<Line> &lines)
{
    std::string data;
    std::string plots;
    size_t colours = 0;
    for (size_t i = 0; i < lines.size(); i++)
    {
        data += fmt::format("$line{} << EOD\n", i);
        for (const auto &[at, value] : lines[i].points)
            data += fmt::format("{} {}\n", at, value);
        data += "EOD\n";
        colours += lines[i].broken ? 0 : 1;
        const std::string title =
            lines[i].broken ? "notitle" : fmt::format("title \"{}\"", lines[i].title);
        plots += fmt::format("{}$line{} using 1:2 with linespoints lw 2 {} ps 0.5 lc rgb '{}' {}",
                             plots.empty() ? "" : ", ", i, lines[i].broken ? "dt 2 pt 6" : "pt 7",
                             colour(colours - 1), title);
    }
    const char *key = colours > 1 ? "set key below samplen 2\n" : "set key off\n";
    return draw(directory, plot,
                kHead + data + axis_program('x', x) + axis_program('y', y) +
                    "set format x \"%.0s%c\"\n" +
                    (y.scale == Scale::kLogarithmic ? "set format y \"%g\"\n" : "") + key +
                    "plot " + plots + "\n");
}

Plot
draw_bars(const std::filesystem::path &directory, const Plot &plot, const std::string &unit,
          const std::vector<std::pair<std::string, Spread>> &bars)
{
    std::string data = "$data << EOD\n";
    for (size_t i = 0; i < bars.size(); i++)
        data += fmt::format("{} \"{}\" {} {} {}\n", i, wrapped(bars[i].first),
                            bars[i].second.median, bars[i].second.low, bars[i].second.high);
    return draw(
        directory, plot,
        kHead + data + "EOD\n" + axis_program('y', {unit}) +
            fmt::format(
                "set xrange [-0.6:{}]\nset boxwidth 0.6\nset bmargin 5\n"
                "set style fill solid 0.8\nset key off\n"
                "plot $data using 1:3:xtic(2) with boxes lc rgb '{}', "
                "$data using 1:4:(0):($5-$4) with vectors heads size 0.04,90 lc rgb 'black'\n",
                static_cast<double>(bars.size()) - 0.4, colour(0)));
}

Plot
draw_stacks(const std::filesystem::path &directory, const Plot &plot, const std::string &unit,
            const std::vector<std::string> &parts,
            const std::vector<std::pair<std::string, std::vector<double>>> &stacks)
{
    std::string data = "$data << EOD\n";
    for (const auto &[title, values] : stacks)
    {
        data += fmt::format("\"{}\"", wrapped(title));
        for (const double value : values)
            data += fmt::format(" {}", value);
        data += "\n";
    }
    std::string plots;
    for (size_t part = 0; part < parts.size(); part++)
        plots += fmt::format("{}$data using {}{} title \"{}\" lc rgb '{}'",
                             plots.empty() ? "" : ", ", part + 2, part == 0 ? ":xtic(1)" : "",
                             parts[part], kShades[part % std::size(kShades)]);
    return draw(directory, plot,
                kHead + data + "EOD\n" + axis_program('y', {unit}) +
                    "set style data histograms\nset style histogram rowstacked\n"
                    "set boxwidth 0.6\nset style fill solid 1\nset bmargin 5\n"
                    "set key inside left top Left reverse samplen 2\nplot " +
                    plots + "\n");
}

} // namespace outbox::bench
