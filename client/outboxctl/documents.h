// What is made from the command line's tree: --help, the man page, the completion for bash.
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

// A script for bash that completes commands, options and their values.
std::string bash_completion(const Interface &interface);

// "-w, --watch" and what follows it, " SECONDS"
std::string option_names(const CLI::Option *option);

// "[options] AGGREGATE_TYPE [PAYLOAD]"
std::string synopsis_of(const CLI::App *app);

} // namespace outbox::ctl
