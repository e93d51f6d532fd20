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

// Finds all contracts. What does not belong there becomes a problem; links are not followed. Throws
// Error when the folder itself cannot be read.
Folder read_folder(const std::string &directory);

// Reads one of them, up to 256 KiB. Says why there is no text; empty when there is.
std::string read_contract(const ContractFile &file, std::string &text);

} // namespace outbox::ctl
