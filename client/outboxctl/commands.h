// The commands. Each returns an exit code, or throws Error.
#pragma once

#include "database.h"
#include "options.h"
#include "output.h"

#include <string>

namespace outbox::ctl
{

struct Context
{
    Output output;
    std::string conninfo;
};

int run_status(const Context &context, const StatusOptions &options);
int run_lag(const Context &context, const LagOptions &options);
int run_emit(const Context &context, const EmitOptions &options);
int run_tail(const Context &context, const TailOptions &options);
int run_failed_list(const Context &context, const FailedOptions &options);
int run_failed_show(const Context &context, const FailedOptions &options);
int run_failed_retry(const Context &context, const FailedOptions &options);
int run_failed_discard(const Context &context, const FailedOptions &options);
int run_replay(const Context &context, const ReplayOptions &options);
int run_replays_list(const Context &context, const ReplayOptions &options);
int run_replays_cancel(const Context &context, const ReplayOptions &options);
int run_pause(const Context &context, const PauseOptions &options);
int run_resume(const Context &context, const PauseOptions &options);
int run_subscriptions_list(const Context &context);
int run_subscriptions_create(const Context &context, const SubscriptionsOptions &options);
int run_subscriptions_alter(const Context &context, const SubscriptionsOptions &options);
int run_subscriptions_attach(const Context &context, const SubscriptionsOptions &options);
int run_subscriptions_detach(const Context &context, const SubscriptionsOptions &options);
int run_subscriptions_drop(const Context &context, const SubscriptionsOptions &options);
int run_contracts_lint(const Context &context, const ContractsOptions &options);
int run_doctor(const Context &context, const DoctorOptions &options);

// Connects, and throws kNotReady when the extension is not in this database or its schema is closed
// to this role.
Database open_outbox(const Context &context);

// Why this database cannot be used, and the statements that a superuser needs where it is not just
// `create extension`. Nothing: the extension is there.
struct Absence
{
    std::string text;
    Text remedy;
};
std::optional<Absence> absence_of_extension(Database &database);

// Whether this role may read these columns of a table or view.
bool may_select(Database &database, const std::string &relation,
                std::initializer_list<const char *> columns);

} // namespace outbox::ctl
