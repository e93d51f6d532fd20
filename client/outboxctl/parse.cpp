// Reads the command line, and says what is wrong with it.
#include "interface.h"

#include "errors.h"
#include "option_kinds.h"
#include "standard_output.h"

#include <algorithm>
#include <numeric>
#include <sstream>
#include <utility>

namespace outbox::ctl
{

namespace
{

// Whether a word was perhaps meant for this one: at most two letters are others, or missing.
bool
resembles(const std::string &word, const std::string &name)
{
    std::vector<std::size_t> costs(name.size() + 1);
    std::iota(costs.begin(), costs.end(), std::size_t{0});
    for (std::size_t i = 0; i < word.size(); i++)
    {
        std::size_t former = std::exchange(costs[0], i + 1);
        for (std::size_t j = 0; j < name.size(); j++)
        {
            const std::size_t other = former + (word[i] == name[j] ? 0 : 1);
            former = costs[j + 1];
            costs[j + 1] = std::min({other, former + 1, costs[j] + 1});
        }
    }
    return costs.back() <= 2;
}

// An option by its name alone: "-p" of "-psecret", "--name" of "--name=secret".
std::string
option_name(const std::string &argument)
{
    return argument.rfind("--", 0) == 0 ? argument.substr(0, argument.find('='))
                                        : argument.substr(0, 2);
}

// In no case a value: a password that was meant for another program's option is one.
std::string
what_is_wrong(const CLI::ParseError &error, const CLI::App *named,
              const std::vector<std::string> &rest)
{
    const auto option = std::find_if(rest.begin(), rest.end(),
                                     [](const std::string &argument)
                                     { return argument.size() > 1 && argument[0] == '-'; });
    if (option != rest.end())
        return "there is no option \"" + option_name(unguarded_message(*option)) + "\"";
    // A command that is not known is left over, and so one is missing.
    if (!rest.empty() && named->get_require_subcommand_min() > 0)
    {
        for (const CLI::App *app : commands_of(named))
            if (resembles(rest[0], app->get_name()))
                return "there is no command \"" + unguarded_message(rest[0]) + "\", but \"" +
                       app->get_name() + "\"";
        return "there is no such command";
    }
    if (!rest.empty())
        return "there is an argument too many; -d stands before a connection string";
    // Of these the text is ours, or CLI11's with nothing but names.
    if (dynamic_cast<const CLI::ValidationError *>(&error) != nullptr ||
        dynamic_cast<const CLI::RequiredError *>(&error) != nullptr ||
        dynamic_cast<const CLI::RequiresError *>(&error) != nullptr ||
        dynamic_cast<const CLI::ExcludesError *>(&error) != nullptr ||
        dynamic_cast<const CLI::ArgumentMismatch *>(&error) != nullptr)
        return unguarded_message(error.what());
    return "an option has a value that it does not take";
}

} // namespace

std::optional<int>
parse(Interface &interface, int argc, char **argv)
{
    // CLI11 takes them from the back.
    std::vector<std::string> arguments;
    for (int i = argc - 1; i > 0; i--)
        arguments.push_back(guarded(argv[i]));
    CLI::App *root = interface.app.get();
    try
    {
        root->parse(std::move(arguments));
        return std::nullopt;
    }
    catch (const CLI::Success &asked)
    {
        std::ostringstream text;
        const int status = root->exit(asked, text, text);
        write_output(text.str());
        return status == 0 ? kOk : kFailed;
    }
    catch (const CLI::ParseError &error)
    {
        const CLI::App *named = root;
        while (!named->get_subcommands([](const CLI::App *app) { return app->parsed(); }).empty())
            named = named->get_subcommands([](const CLI::App *app) { return app->parsed(); })[0];
        throw Error(kUsage, what_is_wrong(error, named, root->remaining(true)),
                    "Try \"" + full_name(named) + " --help\".");
    }
}

} // namespace outbox::ctl
