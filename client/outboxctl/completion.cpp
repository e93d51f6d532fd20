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
    std::string meaning;
    std::string value; // "FILE", empty for a flag
    std::vector<std::string> choices;
    bool repeats = false;
    bool everywhere = false; // one of all commands, met again below them
};

struct Command
{
    std::string path; // "failed list", empty for outboxctl itself
    std::string meaning;
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
    result.meaning = option->get_description();
    result.value = value_name(option);
    result.repeats = option->get_items_expected_max() > 1;
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
    command.meaning = app->get_description();
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

std::vector<Command>
all_commands(const Interface &interface)
{
    std::vector<Command> commands;
    collect(interface, interface.app.get(), "", commands);
    return commands;
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

// The function needs nothing of the package bash-completion.
std::string
for_bash(const std::vector<Command> &commands)
{
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

std::string
zsh_escaped(const std::string &text)
{
    std::string result;
    for (const char c : text)
        result += std::string(c == '[' || c == ']' || c == ':' || c == '\\' ? "\\" : "") + c;
    return result;
}

std::string
zsh_option(const Option &option)
{
    std::string result;
    for (const std::string &name : option.names)
    {
        std::string spec =
            (option.repeats ? "*" : "") + name + "[" + zsh_escaped(option.meaning) + "]";
        if (!option.value.empty())
            spec += ":" + option.value + ":" +
                    (option.value == "FILE" ? "_files" : "(" + joined(option.choices, " ") + ")");
        result += " \\\n            " + in_quotes(spec);
    }
    return result;
}

std::string
for_zsh(const std::vector<Command> &commands)
{
    std::string cases;
    std::string paths;
    for (const Command &command : commands)
    {
        std::string options;
        for (const Option &option : command.options)
            options += zsh_option(option);
        const std::string words =
            command.words.empty()
                ? ""
                : " \\\n            " + in_quotes("1:word:(" + joined(command.words, " ") + ")");
        cases += fmt::format("        {}) _arguments -s{}{} ;;\n", in_quotes(command.path), options,
                             words);
        if (!command.path.empty())
            paths += (paths.empty() ? "" : "|") + in_quotes(command.path);
    }
    return fmt::format(R"(#compdef outboxctl
# zsh completion of outboxctl; made by "outboxctl completion zsh"
_outboxctl()
{{
    local command= word i last=1
    for ((i = 2; i < CURRENT; i++)); do
        word=${{command:+$command }}${{words[i]}}
        case $word in
        {}) command=$word last=$i ;;
        esac
    done
    # What stands before the command's last word is done with.
    words=("${{(@)words[last,-1]}}")
    ((CURRENT -= last - 1))
    case $command in
{}    esac
}}
if [ "$funcstack[1]" = _outboxctl ]; then _outboxctl "$@"; else compdef _outboxctl outboxctl; fi)",
                       paths, cases);
}

std::string
for_fish(const std::vector<Command> &commands)
{
    std::string result = R"(# fish completion of outboxctl; made by "outboxctl completion fish"
# Which command the words so far name.
function __outboxctl_command
    set -l path ''
    for word in (commandline -opc)[2..-1]
        switch (string trim -- "$path $word")
            case )";
    for (const Command &command : commands)
        if (!command.path.empty())
            result += in_quotes(command.path) + " ";
    result += R"(
                set path (string trim -- "$path $word")
        end
    end
    test "$path" = "$argv[1]"
end
complete -c outboxctl -f)";
    for (const Command &command : commands)
    {
        const std::string start = "\ncomplete -c outboxctl -n " +
                                  in_quotes("__outboxctl_command " + in_quotes(command.path));
        if (!command.words.empty())
            result += start + " -a " + in_quotes(joined(command.words, " "));
        for (const Option &option : command.options)
        {
            result += start;
            for (const std::string &name : option.names)
                result += name[1] == '-' ? " -l " + name.substr(2) : " -s " + name.substr(1);
            if (option.value == "FILE")
                result += " -r -F";
            else if (!option.value.empty())
                result += " -x -a " + in_quotes(joined(option.choices, " "));
            result += " -d " + in_quotes(option.meaning);
        }
    }
    return result;
}

} // namespace

std::string
completion_script(const Interface &interface, const std::string &shell)
{
    const std::vector<Command> commands = all_commands(interface);
    if (shell == "zsh")
        return for_zsh(commands);
    return shell == "fish" ? for_fish(commands) : for_bash(commands);
}

} // namespace outbox::ctl
