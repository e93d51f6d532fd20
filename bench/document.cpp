#include "document.h"

#include <iostream>
#include <stdexcept>

#include <fmt/format.h>

#include "bench/show/table.h"
#include "parts.h"
#include "support/workspace.h"

namespace outbox::bench
{

namespace
{

constexpr const char *kBegin = "<!-- begin of what scripts/bench wrote -->\n";
constexpr const char *kEnd = "<!-- end of what scripts/bench wrote -->\n";
constexpr const char *kNewPage = "# Benchmarks\n\n";

struct Section
{
    const Part *part;
    Json result;
};

std::vector<Section>
read_sections(const std::filesystem::path &directory)
{
    std::vector<Section> sections;
    for (const Part &part : parts())
    {
        const std::filesystem::path file = directory / (std::string(part.name) + ".json");
        if (std::filesystem::exists(file))
            sections.push_back({&part, Json::parse(test::read_file(file))});
    }
    if (sections.empty())
        throw std::runtime_error("nothing was measured: there are no figures in " +
                                 directory.string());
    return sections;
}

const Section &
newest(const std::vector<Section> &sections)
{
    const Section *found = &sections.front();
    for (const Section &section : sections)
        if (section.result.at("date") > found->result.at("date"))
            found = &section;
    return *found;
}

std::string
sittings_text(const std::vector<Section> &sections)
{
    constexpr double kMinute = 60;
    Table table({"measured", "when", "commit", "load average before", "minutes"});
    for (const Section &section : sections)
        table.add({section.part->about, section.result.at("date").get<std::string>(),
                   section.result.at("commit").get<std::string>(),
                   fmt::format("{:.2f}", section.result.at("load_before").get<double>()),
                   fmt::format("{:.1f}", section.result.at("seconds").get<double>() / kMinute)});
    return table.text();
}

std::string
setup_text(const Json &setup)
{
    Table table({"", ""});
    for (const auto &[name, value] : setup.items())
        table.add({name, value.get<std::string>()});
    return table.text();
}

// What a sitting had that the newest one has not.
std::string
other_setup(const Section &section, const Json &common)
{
    std::string text;
    for (const auto &[name, value] : section.result.at("setup").items())
        if (!common.contains(name) || common.at(name) != value)
            text += fmt::format("{} here: {}.\n\n", name, value.get<std::string>());
    return text;
}

std::string
reaches_text(const std::vector<Section> &sections)
{
    Table table({"", "figure", "limit", ""});
    for (const Section &section : sections)
        for (const Json &reach : section.result.at("reach"))
        {
            const bool at_least = reach.contains("at_least");
            table.add({reach.at("what").get<std::string>(),
                       fmt::format("{:.2f}", reach.at("figure").get<double>()),
                       fmt::format("{} {}", at_least ? ">=" : "<=",
                                   reach.at(at_least ? "at_least" : "at_most").get<double>()),
                       reach.at("met").get<bool>() ? "reached" : "**missed**"});
        }
    return table.text();
}

// The plots of each section, in the order of the sections.
std::vector<std::vector<Plot>>
draw(const std::vector<Section> &sections, const std::filesystem::path &directory)
{
    Json all;
    for (const Section &section : sections)
        all[section.part->name] = section.result.at("figures");
    std::vector<std::vector<Plot>> plots;
    for (const Section &section : sections)
        plots.push_back(section.part->draw == nullptr ? std::vector<Plot>()
                                                      : section.part->draw(all, directory));
    return plots;
}

std::string
generated(const std::vector<Section> &sections, const std::vector<std::vector<Plot>> &plots,
          const std::string &directory)
{
    const Json &setup = newest(sections).result.at("setup");
    std::string text = "\n## Reach\n\n" + reaches_text(sections) +
                       "## Sittings\n\nFigures that are compared are of one sitting.\n\n" +
                       sittings_text(sections) + setup_text(setup);
    for (size_t i = 0; i < sections.size(); i++)
    {
        text += fmt::format("## {}\n\n", sections[i].part->about) +
                sections[i].part->text(sections[i].result.at("figures")) +
                other_setup(sections[i], setup);
        for (const Plot &plot : plots[i])
            text += fmt::format("![{}]({}/{})\n\n", plot.title, directory, plot.file);
    }
    return text;
}

} // namespace

void
write_document(const std::filesystem::path &directory, const std::filesystem::path &page)
{
    const std::vector<Section> sections = read_sections(directory);
    for (const std::vector<Plot> &plots : draw(sections, directory))
        for (const Plot &plot : plots)
            std::cout << plot.title << ": " << (directory / plot.file).string() << "\n";
    if (page.empty())
        return;
    std::string text = std::filesystem::exists(page) ? test::read_file(page)
                                                     : std::string(kNewPage) + kBegin + kEnd;
    const size_t begin = text.find(kBegin);
    const size_t end = text.find(kEnd);
    if (begin == std::string::npos || end == std::string::npos || end < begin)
        throw std::runtime_error(page.string() + " has lost the marks between which figures go");
    const size_t from = begin + std::string(kBegin).size();
    const std::filesystem::path beside = std::filesystem::absolute(page).replace_extension();
    text.replace(from, end - from, generated(sections, draw(sections, beside), beside.filename()));
    test::write_file(page, text);
    std::cout << "written: " << page.string() << "\n";
}

} // namespace outbox::bench
