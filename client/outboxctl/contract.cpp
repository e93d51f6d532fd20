#include "contract.h"

#include "units.h"

#include "extension/core/characters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace outbox::ctl
{

namespace
{

constexpr std::array kKeys = {"event_type", "aggregate_type", "schema_version", "compatibility",
                              "owner"};
constexpr std::array kSections = {"Partition key", "Idempotency key", "Compatibility", "Consumers"};

std::string
quoted(const std::string &text)
{
    return "\"" + text + "\"";
}

template <class List>
std::string
listed(const List &list)
{
    std::string result;
    for (const char *item : list)
        result += std::string(result.empty() ? "" : ", ") + item;
    return result;
}

// A positive number without a sign or leading zeros, and no higher than an int, as
// outbox.events.schema_version; 0 when it is none.
int
number_of(const std::string &text)
{
    int number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    return whole && number > 0 && text[0] != '0' ? number : 0;
}

std::optional<Compatibility>
compatibility_of(const std::string &text)
{
    if (text == "backward")
        return Compatibility::kBackward;
    if (text == "forward")
        return Compatibility::kForward;
    if (text == "full")
        return Compatibility::kFull;
    if (text == "none")
        return Compatibility::kNone;
    return std::nullopt;
}

const Field *
find(const std::vector<Field> &fields, const std::string &key)
{
    const auto found = std::find_if(fields.begin(), fields.end(),
                                    [&](const Field &field) { return field.key == key; });
    return found == fields.end() ? nullptr : &*found;
}

void
check_keys(const std::vector<Field> &fields, Problems &problems)
{
    for (const Field &field : fields)
    {
        if (std::find(kKeys.begin(), kKeys.end(), field.key) == kKeys.end())
            problems.push_back({field.line, "there is no key " + quoted(field.key) +
                                                "; the keys are " + listed(kKeys)});
        else if (find(fields, field.key) != &field)
            problems.push_back({field.line, quoted(field.key) + " is there twice"});
    }
    for (const char *key : kKeys)
        if (find(fields, key) == nullptr)
            problems.push_back({1, "the front matter lacks " + quoted(key)});
}

// Returns the schema version that the front matter names, 0 when it is none.
int
read_front_matter(const std::vector<Field> &fields, Contract &contract, Problems &problems)
{
    check_keys(fields, problems);
    if (const Field *field = find(fields, "aggregate_type"))
        contract.aggregate_type = field->value;
    if (const Field *field = find(fields, "event_type"))
    {
        contract.event_type = field->value;
        contract.event_type_line = field->line;
    }
    if (const Field *field = find(fields, "compatibility"))
    {
        const std::optional<Compatibility> known = compatibility_of(field->value);
        if (!known)
            problems.push_back({field->line, "compatibility is backward, forward, full or none"});
        contract.compatibility = known.value_or(Compatibility::kNone);
    }
    const Field *version = find(fields, "schema_version");
    const int number = version == nullptr ? 0 : number_of(version->value);
    if (version != nullptr && number == 0)
        problems.push_back({version->line, "schema_version is a number from 1 on"});
    return number;
}

void
check_title(const std::vector<Section> &sections, const Contract &contract, Problems &problems)
{
    if (sections.empty() || sections[0].level != 1)
    {
        problems.push_back({sections.empty() ? 1 : sections[0].line,
                            "the first heading is \"# \" and the event type"});
        return;
    }
    if (!contract.event_type.empty() && sections[0].title != contract.event_type)
        problems.push_back({sections[0].line, "the title is " + quoted(sections[0].title) +
                                                  ", event_type is " +
                                                  quoted(contract.event_type)});
    if (!sections[0].prose)
        problems.push_back(
            {sections[0].line, "below the title stands what the event means and when it happens"});
}

bool
is_version(const Section &section)
{
    return section.level == 2 && section.title.rfind("Version ", 0) == 0;
}

// The sections that every contract has, each once, in their order, before the versions.
void
check_sections(const std::vector<Section> &sections, Problems &problems)
{
    std::array<const Section *, kSections.size()> found = {};
    std::size_t reached = 0; // as far as the order goes
    bool versions = false;
    for (std::size_t i = 1; i < sections.size(); i++)
    {
        const Section &section = sections[i];
        versions = versions || is_version(section);
        if (section.level == 1)
            problems.push_back({section.line, "there is one heading of the first level"});
        if (section.level != 2 || is_version(section))
            continue;
        const auto known = std::find(kSections.begin(), kSections.end(), section.title);
        const auto index = static_cast<std::size_t>(known - kSections.begin());
        if (known == kSections.end())
            problems.push_back({section.line, "there is no section " + quoted(section.title) +
                                                  "; the sections are " + listed(kSections) +
                                                  " and Version N"});
        else if (found[index] != nullptr)
            problems.push_back({section.line, quoted(section.title) + " is there twice"});
        else if (index < reached || versions)
            problems.push_back({section.line, quoted(section.title) +
                                                  " comes too late; the order is " +
                                                  listed(kSections) + ", Version N"});
        if (known == kSections.end())
            continue;
        if (!section.prose)
            problems.push_back({section.line, quoted(section.title) + " says nothing"});
        found[index] = &section;
        reached = std::max(reached, index);
    }
    for (std::size_t i = 0; i < found.size(); i++)
        if (found[i] == nullptr)
            problems.push_back(
                {1, std::string("the section \"## ") + kSections[i] + "\" is missing"});
}

// "### Schema", "### Example", "### Example: title" or "### Counterexample: title"
void
read_part(const Section &section, Version &version, Problems &problems)
{
    const std::string kind = section.title.substr(0, section.title.find(':'));
    if (section.title != "Schema" && kind != "Example" && kind != "Counterexample")
    {
        problems.push_back({section.line, "below a version stand Schema, Example and "
                                          "Counterexample, not " +
                                              quoted(section.title)});
        return;
    }
    if (section.fences.size() != 1 || section.fences[0].language != "json")
    {
        problems.push_back({section.line, quoted(section.title) + " holds one block ```json"});
        return;
    }
    if (kind != "Schema")
        version.examples.push_back({kind == "Example", section.fences[0]});
    else if (version.schema)
        problems.push_back({section.line, "the version has two schemas"});
    else if (!version.examples.empty())
        problems.push_back({section.line, "the schema stands before the examples"});
    else
        version.schema = section.fences[0];
}

void
check_version(const Version &version, Problems &problems)
{
    const std::string name = fmt::format("version {}", version.number);
    if (!version.schema)
        problems.push_back({version.line, name + " has no schema"});
    if (std::none_of(version.examples.begin(), version.examples.end(),
                     [](const Example &example) { return example.conforms; }))
        problems.push_back({version.line, name + " has no example"});
}

void
read_versions(const std::vector<Section> &sections, int newest, Contract &contract,
              Problems &problems)
{
    std::vector<Version> &versions = contract.versions;
    bool in_version = false;
    const Section *last = nullptr;
    for (const Section &section : sections)
    {
        if (section.level <= 2)
            in_version = is_version(section);
        if (is_version(section))
        {
            const int number = number_of(section.title.substr(sizeof "Version " - 1));
            const int expected = versions.empty() ? newest : versions.back().number - 1;
            if (number == 0)
                problems.push_back({section.line, "a version is a number from 1 on"});
            else if (expected != number && versions.empty() && newest > 0)
                problems.push_back({section.line, fmt::format("the newest version comes first: "
                                                              "schema_version is {}",
                                                              newest)});
            else if (expected != number && !versions.empty())
                problems.push_back(
                    {section.line,
                     expected == 0
                         ? "there is no version before 1"
                         : fmt::format("here comes version {}, without a gap", expected)});
            if (last != nullptr && !last->prose)
                problems.push_back({last->line, "what the version changed is not said"});
            last = &section;
            versions.push_back({number, section.line, std::nullopt, {}});
        }
        else if (section.level > 2 && !in_version)
            problems.push_back({section.line, "only versions have headings below them"});
        else if (section.level > 3)
            problems.push_back({section.line, "there are headings of three levels only"});
        else if (section.level == 3)
            read_part(section, versions.back(), problems);
    }
    if (versions.empty())
        problems.push_back({1, "there is no section \"## Version N\""});
    for (const Version &version : versions)
        check_version(version, problems);
}

} // namespace

Contract
read_contract(const std::string &text, Problems &problems)
{
    Contract contract;
    const Markdown markdown = read_markdown(text, problems);
    if (markdown.front_matter.empty() && markdown.sections.empty() && !problems.empty())
        return contract; // not a text at all, which has been said
    const int newest = read_front_matter(markdown.front_matter, contract, problems);
    check_title(markdown.sections, contract, problems);
    check_sections(markdown.sections, problems);
    read_versions(markdown.sections, newest, contract, problems);
    return contract;
}

std::string
file_name_of(const std::string &event_type)
{
    std::string result;
    for (const char c : lower(event_type))
    {
        if ((c >= 'a' && c <= 'z') || is_digit(c))
            result += c;
        else if (!result.empty() && result.back() != '-')
            result += '-';
    }
    if (!result.empty() && result.back() == '-')
        result.pop_back();
    return result;
}

} // namespace outbox::ctl
