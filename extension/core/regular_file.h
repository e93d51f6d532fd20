// A file that a setting names.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

namespace outbox
{

struct CloseFile
{
    void operator()(std::FILE *file) const noexcept { (void) std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

// Opens a regular file for reading, or returns nothing and says in `why` what is in the way. Does
// not wait, as fopen() does for somebody who writes into a FIFO: no signal would end that. May
// throw std::bad_alloc.
File open_regular_file(const std::string &path, std::string &why);

} // namespace outbox
