// The command line as a tree of CLI11, from which --help, the man page and the completion are
// made.
#pragma once

#include "commands.h"
#include "options.h"

#include <CLI/CLI.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace outbox::ctl
{

// Where the tree leaves what it read. Keep it as long as the tree.
struct Interface
{
    std::unique_ptr<CLI::App> app;
    Options options;
    std::function<int(const Context &)> command; // the one that was named
    std::map<const CLI::Option *, std::vector<std::string>> choices;
};

std::unique_ptr<Interface> make_interface();

// Reads the command line. Returns nothing when a command is to be run, else the exit code: help was
// asked for and is printed, or the usage is wrong and stderr says how.
std::optional<int> parse(Interface &interface, int argc, char **argv);

// The path of a command, "outboxctl failed list".
std::string full_name(const CLI::App *app);

// Subcommands and options that users see, in the order in which they were made. Options without
// positional arguments, and these.
std::vector<const CLI::App *> commands_of(const CLI::App *app);
std::vector<const CLI::Option *> flags_of(const CLI::App *app);
std::vector<const CLI::Option *> arguments_of(const CLI::App *app);

// What stands behind an option's name: "SECONDS", or nothing for a flag.
std::string value_name(const CLI::Option *option);

} // namespace outbox::ctl
