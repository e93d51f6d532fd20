// What is made from the command line's tree: --help, the man page, completions for shells.
#pragma once

#include "interface.h"

#include <string>

namespace outbox::ctl
{

// "--help" of any command.
class HelpFormatter : public CLI::FormatterBase
{
public:
    std::string make_help(const CLI::App *app, std::string name,
                          CLI::AppFormatMode mode) const override;
};

// outboxctl(1), in the macros of man(7).
std::string man_page(const Interface &interface);

// For bash, zsh or fish.
std::string completion_script(const Interface &interface, const std::string &shell);

// "-w, --watch" and what follows it, " SECONDS"
std::string option_names(const CLI::Option *option);

// "[options] AGGREGATE_TYPE [PAYLOAD]"
std::string synopsis_of(const CLI::App *app);

} // namespace outbox::ctl
