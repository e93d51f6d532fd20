// A folder of contracts, checked.
#pragma once

#include "contract_folder.h"

#include <string>
#include <vector>

namespace outbox::ctl
{

struct Linted
{
    int contracts = 0; // these three without the template
    int versions = 0;
    int examples = 0;
    std::vector<FileProblem> problems; // by file and line
    Folder folder;                     // what was read
};

// Throws Error when the folder cannot be read, or has no contract.
Linted lint_folder(const std::string &directory);

} // namespace outbox::ctl
