// outboxctl pause, outboxctl resume
#include "commands.h"

#include "errors.h"
#include "standard_output.h"

namespace outbox::ctl
{

int
run_pause(const Context &context, const PauseOptions &options)
{
    Database database = open_outbox(context);
    const bool changed =
        database
            .change("publishing is paused",
                    options.subscription ? "select outbox.pause($1, $2) as changed"
                                         : "select outbox.pause($1) as changed",
                    options.subscription ? std::vector<Text>{options.reason, options.subscription}
                                         : std::vector<Text>{options.reason})
            .flag(0, "changed");
    note_effect("Publishing is paused.");
    if (context.output.json())
        context.output.document({{"paused", true}, {"changed", changed}});
    else if (changed)
        context.output.line("Paused. Events are kept; \"outboxctl resume\" publishes them.");
    else
        context.output.line("It was paused already; \"outboxctl status\" shows by whom.");
    return kOk;
}

int
run_resume(const Context &context, const PauseOptions &options)
{
    Database database = open_outbox(context);
    const bool changed = database
                             .change("publishing is no longer paused",
                                     options.subscription ? "select outbox.resume($1) as changed"
                                                          : "select outbox.resume() as changed",
                                     options.subscription ? std::vector<Text>{options.subscription}
                                                          : std::vector<Text>{})
                             .flag(0, "changed");
    note_effect("Publishing is no longer paused.");
    if (context.output.json())
        context.output.document({{"paused", false}, {"changed", changed}});
    else
        context.output.line(changed ? "Resumed." : "It was not paused.");
    return kOk;
}

} // namespace outbox::ctl
