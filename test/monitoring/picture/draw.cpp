#include "draw.h"

#include <sstream>

#include "support/process.h"
#include "support/workspace.h"

namespace outbox::test
{

namespace
{

constexpr int kWidth = 1000;
constexpr int kPanelHeight = 230;

// What Grafana makes of the units that the dashboard has.
std::string
axis(const std::string &unit)
{
    if (unit == "bytes" || unit == "Bps")
        return std::string("set format y '%.1s%cB'\n") +
               (unit == "Bps" ? "set ylabel 'a second'\n" : "");
    if (unit == "s")
        return "set format y '%g s'\n";
    return std::string("set format y '%g'\n") + (unit == "cps" ? "set ylabel 'a second'\n" : "");
}

// Gaps stay gaps: a sample that is missing ends the line.
void
write_lines(std::ostream &out, const std::vector<Line> &lines, size_t number, bool by_place)
{
    for (size_t i = 0; i < lines.size(); i++)
    {
        out << "$p" << number << "_" << i << " << EOD\n";
        double before = -1;
        for (const auto &[seconds, value] : lines[i].points)
        {
            if (before >= 0 && seconds - before > 1.5)
                out << "\n";
            out << seconds << " " << (by_place ? static_cast<double>(lines.size() - i) : value)
                << "\n";
            before = seconds;
        }
        out << "EOD\n";
    }
}

void
plot(std::ostream &out, const DrawnPanel &drawn, size_t number)
{
    const bool timeline = drawn.panel.kind == "state-timeline";
    const auto count = drawn.lines.size();
    write_lines(out, drawn.lines, number, timeline);
    out << "unset ylabel\nunset ytics\nset ytics nomirror\nset title \"" << drawn.panel.title
        << "\"\n";
    if (timeline)
    {
        out << "set yrange [0.4:" << static_cast<double>(count) + 0.6 << "]\nset ytics nomirror (";
        for (size_t i = 0; i < count; i++)
            out << (i == 0 ? "" : ", ") << "\"" << drawn.lines[i].legend << "\" " << count - i;
        out << ")\n";
    }
    else
        out << "set yrange [0:*<1e12]\n" << axis(drawn.panel.unit);
    out << "plot ";
    for (size_t i = 0; i < count; i++)
        out << (i == 0 ? "" : ", ") << "$p" << number << "_" << i << " using 1:2 with lines lc "
            << i + 1
            << (timeline ? " lw 14 notitle" : " lw 2 title \"" + drawn.lines[i].legend + "\"");
    out << "\n";
}

} // namespace

void
draw(const std::vector<DrawnPanel> &panels, double seconds, const std::filesystem::path &file)
{
    const size_t rows = (panels.size() + 1) / 2;
    std::ostringstream out;
    out << "set encoding utf8\n"
        << "set terminal svg noenhanced size " << kWidth << "," << rows * kPanelHeight
        << " background rgb 'white' font 'sans-serif,11'\n"
        << "set output '" << file.string() << "'\n"
        << "set multiplot layout " << rows << ",2\n"
        << "set grid ytics lc rgb '#dddddd'\nset border 3\nset tics nomirror\n"
        << "set key outside bottom center horizontal\n"
        << "set lmargin 14\nset rmargin 3\n"
        << "set xrange [0:" << seconds << "]\nset format x '%g s'\n";
    for (size_t i = 0; i < panels.size(); i++)
        plot(out, panels[i], i);
    out << "unset multiplot\n";
    const std::filesystem::path program = run_dir() / "dashboard.gnuplot";
    write_file(program, out.str());
    run_or_throw(Command({"gnuplot", program.string()}));
}

} // namespace outbox::test
