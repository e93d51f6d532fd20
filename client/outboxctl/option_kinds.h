// Options by the type of what they fill, for the command line's tree. Their errors have the value
// only where it is a word of a list, a time or a number: other texts may be secrets.
#pragma once

#include "interface.h"
#include "units.h"

#include <charconv>

#include <fmt/format.h>

namespace outbox::ctl
{

// CLI11 takes an argument that begins with "[" for a list of several. Ours may be JSON, so these
// get a character before them that is taken away again when the value is read.
constexpr char kGuard = '\x1f';

inline std::string
guarded(std::string argument)
{
    const std::size_t equals = argument.rfind("--", 0) == 0 ? argument.find('=') : 0;
    const std::size_t place = equals == 0 ? 0 : equals + 1;
    if (equals != std::string::npos && argument.compare(place, 1, "[") == 0)
        argument.insert(place, 1, kGuard);
    return argument;
}

inline std::string
unguarded(const std::string &value)
{
    return !value.empty() && value[0] == kGuard ? value.substr(1) : value;
}

// What CLI11 says may quote arguments, and may have several lines.
inline std::string
unguarded_message(std::string message)
{
    for (std::size_t i = 0; i < message.size();)
        if (message[i] == kGuard)
            message.erase(i, 1);
        else
            message[i] = message[i] == '\n' ? ' ' : message[i], i++;
    return message;
}

// What PostgreSQL and Kafka take as text. Files have any names, a payload may be bytes, and of
// connection strings libpq knows best.
inline std::string
understood(const std::string &name, const std::string &type, const std::string &argument)
{
    std::string value = unguarded(argument);
    const bool any = type == "FILE" || type == "DIR" || type == "CONNINFO" || name == "PAYLOAD";
    if (!any && !is_utf8(value))
        throw CLI::ValidationError(name, "the value is not UTF-8");
    return value;
}

// A command that runs `function` with the options.
inline CLI::App *
command(Interface &interface, CLI::App *parent, const std::string &name,
        const std::string &description, std::function<int(const Context &)> function)
{
    CLI::App *app = parent->add_subcommand(name, description);
    if (function)
        app->callback([&interface, function = std::move(function)]
                      { interface.command = function; });
    return app;
}

// Options by the type of what they fill; all texts go through here.
template <class Target>
CLI::Option *
text(CLI::App *app, const std::string &name, Target &target, const std::string &description,
     const std::string &type)
{
    return app
        ->add_option_function<std::string>(
            name,
            [&target, name, type](const std::string &value)
            { target = understood(name, type, value); },
            description)
        ->type_name(type);
}

inline CLI::Option *
texts(CLI::App *app, const std::string &name, std::vector<std::string> &target,
      const std::string &description, const std::string &type)
{
    return app
        ->add_option_function<std::vector<std::string>>(
            name,
            [&target, name, type](const std::vector<std::string> &values)
            {
                for (const std::string &value : values)
                    target.push_back(understood(name, type, value));
            },
            description)
        ->type_name(type);
}

// May be given several times, each with one value.
inline CLI::Option *
repeated(CLI::App *app, const std::string &name, std::vector<std::string> &target,
         const std::string &description, const std::string &type)
{
    return texts(app, name, target, description, type)->allow_extra_args(false);
}

template <class Target>
CLI::Option *
duration(CLI::App *app, const std::string &name, Target &target, const std::string &description)
{
    return app
        ->add_option_function<std::string>(
            name,
            [&target, name](const std::string &value)
            {
                const std::optional<double> seconds = parse_duration(value);
                if (!seconds)
                    throw CLI::ValidationError(name, "\"" + printable(value) +
                                                         "\" is no time; write 30, 15m, 2h or 7d");
                target = *seconds;
            },
            description)
        ->type_name("TIME");
}

template <class Target>
CLI::Option *
number(CLI::App *app, const std::string &name, Target &target, int most,
       const std::string &description)
{
    return app
        ->add_option_function<std::string>(
            name,
            [&target, name, most](const std::string &text)
            {
                int value = 0;
                const char *end = text.data() + text.size();
                const auto [rest, error] = std::from_chars(text.data(), end, value);
                if (error != std::errc() || rest != end || value < 1 || value > most)
                    throw CLI::ValidationError(
                        name, fmt::format("must be 1 to {}, not \"{}\"", most, printable(text)));
                target = value;
            },
            description)
        ->type_name("N");
}

inline CLI::Option *
choice(Interface &interface, CLI::App *app, const std::string &name, std::string &target,
       const std::vector<std::string> &values, const std::string &description,
       const std::string &type)
{
    CLI::Option *option = text(app, name, target, description, type);
    option->check(CLI::IsMember(values).description(""));
    interface.choices[option] = values;
    return option;
}

// interface_subscriptions.cpp
CLI::Option *add_subscription_option(CLI::App *app, std::optional<std::string> &target,
                                     const std::string &description);
void add_subscriptions(Interface &interface, CLI::App *root);

} // namespace outbox::ctl
