#include "contract_lint.h"

#include "bounded.h"
#include "contract_check.h"
#include "errors.h"
#include "json.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace outbox::ctl
{

namespace
{

constexpr unsigned kSecondsForOne = 3;

// What the process that checks a contract reports.
std::string
checked_as_json(const std::string &text)
{
    Problems problems;
    const Contract contract = check_contract(text, problems);
    Json json = {{"aggregate_type", contract.aggregate_type},
                 {"event_type", contract.event_type},
                 {"line", contract.event_type_line},
                 {"versions", contract.versions.size()},
                 {"examples", 0},
                 {"problems", Json::array()}};
    for (const Version &version : contract.versions)
        json["examples"] = json["examples"].get<std::size_t>() + version.examples.size();
    for (const Problem &problem : problems)
        json["problems"].push_back({{"line", problem.line}, {"message", problem.message}});
    return to_line(json);
}

class Linting
{
public:
    explicit Linting(Linted &linted) : linted_(linted) {}

    void check(const ContractFile &file)
    {
        std::string text;
        const std::string why = read_contract(file, text);
        if (!why.empty())
        {
            add(file, 1, "this " + why);
            return;
        }
        const Bounded checked =
            run_bounded([&text] { return checked_as_json(text); }, kSecondsForOne);
        if (!checked.done)
        {
            add(file, 1,
                "checking this contract " + checked.text +
                    "; its patterns or references lead too far");
            return;
        }
        const Json json = Json::parse(checked.text);
        for (const Json &problem : json.at("problems"))
            add(file, problem.at("line"), problem.at("message"));
        if (file.is_template)
            return;
        linted_.contracts++;
        linted_.versions += json.at("versions").get<int>();
        linted_.examples += json.at("examples").get<int>();
        check_identity(file, json.at("aggregate_type"), json.at("event_type"), json.at("line"));
    }

private:
    void add(const ContractFile &file, int line, const std::string &message)
    {
        linted_.problems.push_back({file.path, {line, message}});
    }

    void check_identity(const ContractFile &file, const std::string &aggregate_type,
                        const std::string &event_type, int line)
    {
        if (event_type.empty())
            return; // said already
        if (file.name != file_name_of(event_type))
            add(file, line,
                "the contract of \"" + event_type + "\" has to be named \"" +
                    file_name_of(event_type) + ".md\"");
        const auto [first, is_new] =
            seen_.emplace(std::pair(aggregate_type, event_type), file.path);
        if (!is_new)
            add(file, line,
                "there is a contract of \"" + event_type + "\" of \"" + aggregate_type +
                    "\" already: " + first->second);
    }

    Linted &linted_;
    std::map<std::pair<std::string, std::string>, std::string> seen_; // and the file
};

} // namespace

Linted
lint_folder(const std::string &directory)
{
    Linted linted;
    linted.folder = read_folder(directory);
    linted.problems = linted.folder.problems;
    Linting linting(linted);
    for (const ContractFile &file : linted.folder.files)
        linting.check(file);
    if (linted.contracts == 0 && linted.problems.empty())
        throw Error(kFailed, "there is no contract in \"" + directory + "\"",
                    "Contracts are files DIR/<domain>/<event>.md; the default of DIR is "
                    "docs/events.");
    std::stable_sort(linted.problems.begin(), linted.problems.end(),
                     [](const FileProblem &a, const FileProblem &b) {
                         return std::tie(a.path, a.problem.line) < std::tie(b.path, b.problem.line);
                     });
    return linted;
}

} // namespace outbox::ctl
