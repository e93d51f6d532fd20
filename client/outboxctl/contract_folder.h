// The files of a folder of event contracts: DIR/<domain>/<event>.md.
#pragma once

#include "contract_markdown.h"

#include <string>
#include <vector>

namespace outbox::ctl
{

struct ContractFile
{
    std::string path; // with the folder's, as it was named
    std::string name; // without ".md"
    bool is_template; // DIR/TEMPLATE.md
    std::string text;
};

// A problem, and in which file.
struct FileProblem
{
    std::string path;
    Problem problem;
};

struct Folder
{
    std::vector<ContractFile> files; // in the order of their paths
    std::vector<FileProblem> problems;
};

// Reads all contracts. What does not belong there becomes a problem; links are not followed, and no
// file is read beyond 256 KiB. Throws Error when the folder itself cannot be read.
Folder read_folder(const std::string &directory);

} // namespace outbox::ctl
