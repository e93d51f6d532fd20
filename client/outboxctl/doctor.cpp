// outboxctl doctor
#include "doctor.h"

#include "errors.h"
#include "terminal.h"
#include "units.h"

#include <fmt/format.h>

#include <algorithm>

namespace outbox::ctl
{

namespace
{

constexpr std::size_t kIndent = 11; // of "  warning  "
constexpr std::size_t kPipeWidth = 100;

Style
style_of(Level level)
{
    switch (level)
    {
    case Level::kOk:
        return Style::kGood;
    case Level::kWarning:
        return Style::kWarning;
    case Level::kProblem:
        return Style::kBad;
    case Level::kNote:
    case Level::kUnknown:
        break;
    }
    return Style::kFaint;
}

void
print(const Output &output, const Finding &finding)
{
    const auto terminal = static_cast<std::size_t>(terminal_width());
    const std::size_t width = std::max<std::size_t>(terminal == 0 ? kPipeWidth : terminal, 40);
    std::string left =
        "  " +
        output.styled(fmt::format("{:<7}", name_of(finding.level)), style_of(finding.level)) + "  ";
    for (const std::string &line : wrapped(printable(finding.text), width - kIndent))
    {
        output.line(left + line);
        left = std::string(kIndent, ' ');
    }
    left += "-> ";
    for (const std::string &line : wrapped(printable(finding.remedy), width - kIndent - 3))
    {
        if (!line.empty())
            output.line(left + line);
        left = std::string(kIndent + 3, ' ');
    }
}

long long
count(const Findings &findings, Level level)
{
    return std::count_if(findings.all().begin(), findings.all().end(),
                         [level](const Finding &finding) { return finding.level == level; });
}

void
print(const Output &output, const Findings &findings)
{
    std::string area;
    for (const Finding &finding : findings.all())
    {
        if (finding.area != area)
        {
            std::string title = finding.area;
            title[0] = static_cast<char>(title[0] - 'a' + 'A');
            output.line((area.empty() ? "" : "\n") + output.styled(title, Style::kBold));
        }
        area = finding.area;
        print(output, finding);
    }
    const long long problems = count(findings, Level::kProblem);
    const long long warnings = count(findings, Level::kWarning);
    const std::string verdict = counted(problems, "problem") + ", " + counted(warnings, "warning");
    output.line("\n" + output.styled(verdict, problems > 0   ? Style::kBad
                                              : warnings > 0 ? Style::kWarning
                                                             : Style::kGood));
}

Json
to_json(const Findings &findings)
{
    Json json = {{"findings", Json::array()},
                 {"problems", count(findings, Level::kProblem)},
                 {"warnings", count(findings, Level::kWarning)}};
    for (const Finding &finding : findings.all())
        json["findings"].push_back(
            {{"area", finding.area},
             {"level", name_of(finding.level)},
             {"text", finding.text},
             {"remedy", finding.remedy.empty() ? Json() : Json(finding.remedy)}});
    return json;
}

// One part of the examination; what it may not look at, or cannot, does not keep us from the rest.
template <class Examination>
void
guarded(Findings &findings, const std::string &area, Examination &&examination)
{
    try
    {
        examination();
    }
    catch (const ConnectionError &)
    {
        throw;
    }
    catch (const Error &error)
    {
        const bool closed = error.sqlstate() == "42501";
        findings.add(area, closed ? Level::kUnknown : Level::kProblem, error.what(),
                     closed ? "The rights that are listed here say what to grant." : error.hint());
    }
}

} // namespace

const char *
name_of(Level level)
{
    switch (level)
    {
    case Level::kOk:
        return "ok";
    case Level::kNote:
        return "note";
    case Level::kWarning:
        return "warning";
    case Level::kProblem:
        return "problem";
    case Level::kUnknown:
        break;
    }
    return "unknown";
}

int
run_doctor(const Context &context, const DoctorOptions &options)
{
    Database database(context.conninfo);
    Findings findings;
    bool extension = false;
    guarded(findings, "server", [&] { extension = examine_server(database, findings); });
    if (extension)
    {
        guarded(findings, "relay", [&] { examine_relay(database, findings); });
        guarded(findings, "relay", [&] { examine_maintenance(database, findings); });
        guarded(findings, "subscriptions", [&] { examine_subscriptions(database, findings); });
        guarded(findings, "rights", [&] { examine_rights(database, options, findings); });
    }
    guarded(findings, "settings", [&] { examine_settings(database, findings); });
    if (extension)
        guarded(findings, "settings", [&] { examine_retention(database, findings); });
    guarded(findings, "kafka",
            [&] { examine_kafka(database, extension, options.kafka, findings); });
    if (context.output.json())
        context.output.document(to_json(findings));
    else
        print(context.output, findings);
    return count(findings, Level::kProblem) > 0 ? kFound : kOk;
}

} // namespace outbox::ctl
