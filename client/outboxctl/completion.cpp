#include "documents.h"

#include <fmt/format.h>

namespace outbox::ctl
{

namespace
{

// The names of options as they are typed, and what follows each.
struct Option
{
    std::vector<std::string> names;
    std::string value; // "FILE", empty for a flag
    std::vector<std::string> choices;
    bool everywhere = false; // one of all commands, met again below them
};

struct Command
{
    std::string path;               // "failed list", empty for outboxctl itself
    std::vector<Option> options;    // with those of all commands
    std::vector<std::string> words; // subcommands, or the choices of the first argument
};

Option
describe(const Interface &interface, const CLI::Option *option)
{
    Option result;
    for (const std::string &name : option->get_snames())
        result.names.push_back("-" + name);
    for (const std::string &name : option->get_lnames())
        result.names.push_back("--" + name);
    result.value = value_name(option);
    const auto found = interface.choices.find(option);
    if (found != interface.choices.end())
        result.choices = found->second;
    return result;
}

void
collect(const Interface &interface, const CLI::App *app, const std::string &path,
        std::vector<Command> &commands)
{
    Command command;
    command.path = path;
    for (const CLI::Option *option : flags_of(app))
        command.options.push_back(describe(interface, option));
    if (app->get_parent() != nullptr)
        for (const CLI::Option *option : flags_of(interface.app.get()))
            if (option != interface.app->get_help_ptr() && option->get_lnames()[0] != "version")
            {
                command.options.push_back(describe(interface, option));
                command.options.back().everywhere = true;
            }
    for (const CLI::Option *argument : arguments_of(app))
        for (const std::string &word : describe(interface, argument).choices)
            command.words.push_back(word);
    for (const CLI::App *next : commands_of(app))
        command.words.push_back(next->get_name());
    commands.push_back(command);
    for (const CLI::App *next : commands_of(app))
        collect(interface, next, path.empty() ? next->get_name() : path + " " + next->get_name(),
                commands);
}

std::string
joined(const std::vector<std::string> &words, const std::string &between)
{
    std::string result;
    for (const std::string &word : words)
        result += (result.empty() ? "" : between) + word;
    return result;
}

// In single quotes for a shell.
std::string
in_quotes(const std::string &text)
{
    std::string result = "'";
    for (const char c : text)
        result += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return result + "'";
}

} // namespace

// The function needs nothing of the package bash-completion.
std::string
bash_completion(const Interface &interface)
{
    std::vector<Command> commands;
    collect(interface, interface.app.get(), "", commands);
    std::string words;
    std::string values;
    std::string paths;
    for (const Command &command : commands)
    {
        std::vector<std::string> offered = command.words;
        for (const Option &option : command.options)
        {
            offered.insert(offered.end(), option.names.begin(), option.names.end());
            if (option.value.empty() || option.everywhere)
                continue;
            const std::string pattern = command.path.empty() ? "*" : in_quotes(command.path);
            values += fmt::format(
                "    {}:{}) {} ;;\n", pattern, joined(option.names, "|" + pattern + ":"),
                option.value == "FILE"
                    ? "COMPREPLY=($(compgen -f -- \"$current\")); compopt -o filenames 2>/dev/null"
                    : fmt::format("COMPREPLY=($(compgen -W {} -- \"$current\"))",
                                  in_quotes(joined(option.choices, " "))));
        }
        words += fmt::format("    {}) words={} ;;\n", in_quotes(command.path),
                             in_quotes(joined(offered, " ")));
        if (!command.path.empty())
            paths += (paths.empty() ? "" : "|") + in_quotes(command.path);
    }
    return fmt::format(R"(# bash completion of outboxctl; made by "outboxctl completion bash"
_outboxctl()
{{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} path= word words= i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${{path:+$path }}${{COMP_WORDS[i]}}
        case $word in
        {}) path=$word ;;
        esac
    done
    case $path:$previous in
{}    *) case $path in
{}    esac
        COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
    esac
}}
complete -F _outboxctl outboxctl)",
                       paths, values, words);
}

} // namespace outbox::ctl
