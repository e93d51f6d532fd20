// outboxctl contracts lint
#include "commands.h"

#include "contract_lint.h"
#include "errors.h"
#include "units.h"

#include <fmt/format.h>

namespace outbox::ctl
{

namespace
{

Json
to_json(const Linted &linted)
{
    Json json = {{"contracts", linted.contracts},
                 {"versions", linted.versions},
                 {"examples", linted.examples},
                 {"problems", Json::array()}};
    for (const FileProblem &found : linted.problems)
        json["problems"].push_back({{"file", found.path},
                                    {"line", found.problem.line},
                                    {"message", found.problem.message}});
    return json;
}

void
print(const Output &output, const Linted &linted)
{
    for (const FileProblem &found : linted.problems)
        output.line(output.styled(fmt::format("{}:{}:", printable(found.path), found.problem.line),
                                  Style::kBold) +
                    " " + printable(found.problem.message));
    const std::string verdict =
        fmt::format("{}, {}, {}: {}", counted(linted.contracts, "contract"),
                    counted(linted.versions, "version"), counted(linted.examples, "example"),
                    counted(static_cast<long long>(linted.problems.size()), "problem"));
    output.line(output.styled(verdict, linted.problems.empty() ? Style::kGood : Style::kBad));
}

} // namespace

int
run_contracts_lint(const Context &context, const ContractsOptions &options)
{
    const Linted linted = lint_folder(options.directory);
    if (context.output.json())
        context.output.document(to_json(linted));
    else
        print(context.output, linted);
    return linted.problems.empty() ? kOk : kFound;
}

} // namespace outbox::ctl
