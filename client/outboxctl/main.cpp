// outboxctl: reads the command line, runs the command, and says what went wrong.
#include "connecting.h"
#include "conninfo.h"
#include "errors.h"
#include "interface.h"
#include "interrupts.h"
#include "kafka_client.h"
#include "standard_error.h"
#include "standard_output.h"
#include "terminal.h"
#include "units.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include <unistd.h>

using namespace outbox::ctl;

namespace
{

constexpr const char *kInsufficientPrivilege = "42501";

bool
colours_wanted(const std::string &when)
{
    const char *no_color = std::getenv("NO_COLOR");
    const char *terminal = std::getenv("TERM");
    if (when != "auto")
        return when == "always";
    return stdout_is_terminal() && (no_color == nullptr || *no_color == '\0') &&
           (terminal == nullptr || std::string(terminal) != "dumb");
}

// A table or function of ours is not there.
bool
is_of_older_extension(const Error &error)
{
    return (error.sqlstate() == "42P01" || error.sqlstate() == "42883") &&
           std::string(error.what()).find("outbox.") != std::string::npos;
}

int
exit_code_of(const Error &error)
{
    return error.sqlstate() == kInsufficientPrivilege || is_of_older_extension(error)
               ? kNotReady
               : error.exit_code();
}

std::string
hint_of(const Error &error)
{
    if (is_of_older_extension(error))
        return "The extension in this database is probably older than this outboxctl: alter "
               "extension outbox update; \"outboxctl doctor\" compares the versions.";
    if (!error.hint().empty() || error.sqlstate() != kInsufficientPrivilege)
        return error.hint();
    return "\"outboxctl doctor\" shows the rights there are and the grants for them.";
}

// With what was done for good before it.
std::string
detail_of(const Error &error)
{
    const std::string &effect = noted_effect();
    return error.detail() + (error.detail().empty() || effect.empty() ? "" : "\n") + effect;
}

void
report_as_json(const Error &error)
{
    const auto text = [](const std::string &value) { return value.empty() ? Json() : Json(value); };
    const Json json = {{"error",
                        {{"message", error.what()},
                         {"detail", text(detail_of(error))},
                         {"hint", text(hint_of(error))},
                         {"sqlstate", text(error.sqlstate())},
                         {"exit_code", exit_code_of(error)}}}};
    (void) std::fprintf(stderr, "%s\n", to_line(json).c_str());
}

// libpq's messages have several lines; each is made harmless by itself.
std::string
printable_lines(const std::string &text)
{
    std::string result;
    for (std::size_t begin = 0; begin <= text.size();)
    {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        std::size_t first = begin;
        while (first < end && text[first] == '\t')
            first++;
        result += (begin == 0 ? "" : "\n  ") + printable(text.substr(first, end - first));
        begin = end + 1;
    }
    return result;
}

int
report(const Error &error, bool json)
{
    flush_output_if_possible(); // what failed comes after what went well
    if (json)
        report_as_json(error);
    else
    {
        const std::string sqlstate = error.sqlstate().empty() ? "" : " (" + error.sqlstate() + ")";
        (void) std::fprintf(stderr, "outboxctl: %s%s\n", printable_lines(error.what()).c_str(),
                            sqlstate.c_str());
        if (!detail_of(error).empty())
            (void) std::fprintf(stderr, "  Detail: %s\n",
                                printable_lines(detail_of(error)).c_str());
        if (!hint_of(error).empty())
            (void) std::fprintf(stderr, "  Hint: %s\n", printable_lines(hint_of(error)).c_str());
    }
    return exit_code_of(error);
}

int
run(Interface &interface)
{
    const Options &options = interface.options;
    const Context context{Output(options.json, colours_wanted(options.colour)), options.conninfo};
    const int status = interface.command(context);
    flush_output();
    return status;
}

int
run_and_report(int argc, char **argv)
{
    // Known before the rest is understood, so that wrong usage is reported as JSON too.
    const bool json = std::find(argv, argv + argc, std::string("--json")) != argv + argc;
    const bool has_output = prepare_standard_files();
    exit_at_signals();
    try
    {
        escape_standard_error();
        if (!has_output)
            throw Error(kFailed, "standard output is closed", "Send it to /dev/null instead.");
        const std::unique_ptr<Interface> interface = make_interface();
        if (const std::optional<int> status = parse(*interface, argc, argv))
        {
            flush_output();
            return *status;
        }
        const Options &options = interface->options;
        for (const KafkaOptions *kafka : {&options.tail.kafka, &options.doctor.kafka})
            hide_passwords(argc, argv, options.conninfo, kafka->properties);
        return run(*interface);
    }
    catch (const Error &error)
    {
        return report(error, json);
    }
    catch (const OutputGone &gone)
    {
        if (*gone.what() != '\0')
            Output::remark(gone.what());
        return kOutputGone;
    }
    catch (const Interrupted &)
    {
        flush_output_if_possible();
        if (!noted_effect().empty())
            Output::remark(printable(noted_effect()));
        return kInterrupted;
    }
    catch (const std::exception &error)
    {
        return report(Error(kFailed, error.what()), json);
    }
}

} // namespace

int
main(int argc, char **argv)
{
    const int status = run_and_report(argc, argv);
    if (status == kInterrupted && ending_signal() == SIGINT)
        end_by_sigint();
    if (!KafkaClient::lingers() && !connecting_lingers())
        return status;
    // Exit handlers would take away from under the threads that are left what they still use. What
    // was written is out already.
    (void) std::fflush(stderr);
    _exit(status);
}
