#include "documents.h"

#include "output.h"
#include "texts.h"

#include <algorithm>

namespace outbox::ctl
{

namespace
{

// Text as roff prints it letter by letter.
std::string
roff(const std::string &text)
{
    std::string result;
    for (const char c : text)
        switch (c)
        {
        case '\\':
            result += "\\e";
            break;
        case '-':
            result += "\\-";
            break;
        case '\'':
            result += "\\(aq";
            break;
        case '"':
            result += "\\(dq";
            break;
        case '~':
            result += "\\(ti";
            break;
        case '^':
            result += "\\(ha";
            break;
        case '`':
            result += "\\(ga";
            break;
        default:
            result += c;
        }
    // A line that begins with a dot would be a macro.
    return !result.empty() && result[0] == '.' ? "\\&" + result : result;
}

// The same in lines of a length that is usual in manuals; each ends with a newline.
std::string
paragraph(const std::string &text)
{
    constexpr std::size_t kWidth = 72;
    std::string result;
    for (const std::string &line : wrapped(text, kWidth))
        result += roff(line) + "\n";
    return result;
}

std::string
entry(const std::string &name, const std::string &meaning)
{
    return ".TP\n.B " + roff(name) + "\n" + paragraph(meaning);
}

std::string
options_of(const CLI::App *app)
{
    std::string result;
    for (const CLI::Option *argument : arguments_of(app))
        result += ".TP\n.I " + roff(option_names(argument)) + "\n" +
                  paragraph(argument->get_description());
    for (const CLI::Option *option : flags_of(app))
        if (app->get_parent() == nullptr || option != app->get_help_ptr())
            result += entry(option_names(option), option->get_description());
    return result;
}

// The commands below `app`, those that only group others left out.
std::string
commands_below(const CLI::App *app)
{
    std::string result;
    for (const CLI::App *command : commands_of(app))
    {
        if (!commands_of(command).empty())
        {
            result += commands_below(command);
            continue;
        }
        result += ".SS " + roff(full_name(command) + " " + synopsis_of(command)) + "\n" +
                  paragraph(command->get_description()) + options_of(command);
    }
    return result;
}

std::string
section(const std::string &title, const std::vector<Explained> &texts)
{
    std::string result = ".SH " + title + "\n";
    for (const Explained &text : texts)
        result += entry(text.name, text.meaning);
    return result;
}

} // namespace

std::string
man_page(const Interface &interface)
{
    const CLI::App *root = interface.app.get();
    return ".\\\" Made by \"outboxctl man-page\" from what the program says about itself.\n"
           ".TH OUTBOXCTL 1 " +
           std::string(kManualDate) + " \"outbox " + kVersion +
           "\" \"outbox\"\n"
           ".SH NAME\noutboxctl \\- " +
           roff(kSummary) +
           "\n.SH SYNOPSIS\n.B outboxctl\n.RI [ options ]\n.I COMMAND\n.RI [ options ]\n"
           ".SH DESCRIPTION\n" +
           paragraph(kDescription) +
           ".SH OPTIONS\nThese may stand before and after the command.\n" + options_of(root) +
           ".SH COMMANDS\n" + commands_below(root) + section("EXIT STATUS", kExitCodes) +
           section("ENVIRONMENT", kEnvironment) + section("EXAMPLES", kExamples) +
           ".SH SEE ALSO\n.BR psql (1),\n.BR kcat (1)";
}

} // namespace outbox::ctl
