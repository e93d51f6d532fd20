// What the manual says beyond the commands and options themselves.
#pragma once

#include <vector>

namespace outbox::ctl
{

struct Explained
{
    const char *name;
    const char *meaning;
};

extern const char *const kVersion;
extern const char *const kManualDate;
extern const char *const kSummary;
extern const char *const kDescription;
extern const std::vector<Explained> kExitCodes;
extern const std::vector<Explained> kEnvironment;
extern const std::vector<Explained> kExamples;

} // namespace outbox::ctl
