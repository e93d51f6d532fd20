#include "documents.h"

#include "output.h"
#include "terminal.h"
#include "texts.h"
#include "units.h"

#include <algorithm>

namespace outbox::ctl
{

namespace
{

constexpr std::size_t kWidest = 100;
constexpr std::size_t kNarrowest = 60;
constexpr std::size_t kFirstColumn = 30; // a longer name gets a line of its own

struct Entry
{
    std::string name;
    std::string meaning;
};

std::size_t
width_of_help()
{
    const auto width = static_cast<std::size_t>(std::max(terminal_width(), 0));
    return width == 0 ? kWidest : std::clamp(width, kNarrowest, kWidest);
}

std::string
section(const std::string &title, const std::vector<Entry> &entries)
{
    if (entries.empty())
        return "";
    std::size_t column = 0;
    std::size_t longer = 0;
    for (const Entry &entry : entries)
        if (columns_of(entry.name) <= kFirstColumn)
            column = std::max(column, columns_of(entry.name));
        else
            longer++;
    if (longer > entries.size() / 2)
        column = 2; // all meanings below their names
    std::string result = "\n" + title + ":\n";
    for (const Entry &entry : entries)
    {
        result += "  " + entry.name;
        std::size_t place = columns_of(entry.name);
        if (place > column)
        {
            result += "\n  ";
            place = 0;
        }
        for (const std::string &line : wrapped(entry.meaning, width_of_help() - column - 4))
        {
            result += std::string(column - place + 2, ' ') + line + "\n" + "  ";
            place = 0;
        }
        result.erase(result.size() - 2);
    }
    return result;
}

std::vector<Entry>
entries_of(const std::vector<const CLI::Option *> &options)
{
    std::vector<Entry> entries;
    for (const CLI::Option *option : options)
        entries.push_back({option_names(option), option->get_description()});
    return entries;
}

std::vector<Entry>
entries_of(const std::vector<const CLI::App *> &commands)
{
    std::vector<Entry> entries;
    for (const CLI::App *command : commands)
    {
        const std::vector<const CLI::App *> below = commands_of(command);
        if (below.empty())
            entries.push_back({command->get_name(), command->get_description()});
        for (const CLI::App *next : below)
            entries.push_back(
                {command->get_name() + " " + next->get_name(), next->get_description()});
    }
    return entries;
}

std::vector<Entry>
entries_of(const std::vector<Explained> &texts)
{
    std::vector<Entry> entries;
    for (const Explained &text : texts)
        entries.push_back({text.name, text.meaning});
    return entries;
}

} // namespace

std::string
option_names(const CLI::Option *option)
{
    if (option->get_positional())
        return option->get_name(true);
    std::string result;
    for (const std::string &name : option->get_snames())
        result += (result.empty() ? "-" : ", -") + name;
    for (const std::string &name : option->get_lnames())
        result += (result.empty() ? "--" : ", --") + name;
    const std::string value = value_name(option);
    return value.empty() ? result : result + " " + value;
}

std::string
synopsis_of(const CLI::App *app)
{
    std::string result = "[options]";
    for (const CLI::Option *argument : arguments_of(app))
    {
        std::string name = argument->get_name(true);
        if (argument->get_items_expected_max() > 1)
            name += "...";
        result += argument->get_required() ? " " + name : " [" + name + "]";
    }
    return commands_of(app).empty() ? result : result + " COMMAND";
}

std::string
HelpFormatter::make_help(const CLI::App *app, std::string /*name*/,
                         CLI::AppFormatMode /*mode*/) const
{
    const bool root = app->get_parent() == nullptr;
    std::string result = "Usage: " + full_name(app) + " " + synopsis_of(app) + "\n\n";
    for (const std::string &line : wrapped(app->get_description(), width_of_help()))
        result += line + "\n";
    result += section("Commands", entries_of(commands_of(app)));
    result += section("Arguments", entries_of(arguments_of(app)));
    if (!root)
    {
        std::vector<const CLI::Option *> own = flags_of(app);
        own.erase(std::remove(own.begin(), own.end(), app->get_help_ptr()), own.end());
        result += section("Options", entries_of(own));
    }
    const CLI::App *top = app;
    while (top->get_parent() != nullptr)
        top = top->get_parent();
    result += section("Options of all commands", entries_of(flags_of(top)));
    if (root)
    {
        result += section("Exit codes", entries_of(kExitCodes));
        result += section("Environment", entries_of(kEnvironment));
        result += section("Examples", entries_of(kExamples));
        result += "\n\"outboxctl COMMAND --help\" shows more; so does \"man outboxctl\".\n";
    }
    return result;
}

} // namespace outbox::ctl
