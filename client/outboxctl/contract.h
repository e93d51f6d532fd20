// An event contract: what docs/events/<domain>/<event>.md says, by the form that
// docs/events/README.md prescribes.
#pragma once

#include "contract_markdown.h"

#include <optional>
#include <string>
#include <vector>

namespace outbox::ctl
{

// Who has to understand whom when the schema changes, as schema registries name it.
enum class Compatibility
{
    kBackward, // consumers with a new version read events of the one before
    kForward,  // consumers with the version before read events of the new one
    kFull,     // both
    kNone,
};

struct Example
{
    bool conforms; // false: a counterexample
    Fence json;
};

struct Version
{
    int number;
    int line;
    std::optional<Fence> schema;
    std::vector<Example> examples;
};

struct Contract
{
    std::string aggregate_type;
    std::string event_type;
    Compatibility compatibility = Compatibility::kNone;
    std::vector<Version> versions; // the newest first
    int event_type_line = 1;
};

// Reads a contract and checks its form; what its JSON says is not looked at. The result is whole
// only when there are no problems.
Contract read_contract(const std::string &text, Problems &problems);

// The file name, without ".md", of the contract of an event type: "order.placed" is
// "order-placed".
std::string file_name_of(const std::string &event_type);

} // namespace outbox::ctl
