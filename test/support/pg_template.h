#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace outbox::test
{

// Makes a data directory as the program `initdb` does with these options, with a system identifier
// that no other one of this program has.
void init_data_dir(const std::filesystem::path &data_dir, const std::string &initdb,
                   const std::vector<std::string> &options);

} // namespace outbox::test
