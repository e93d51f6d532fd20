// A file that a setting names.
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

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

// Appends what the file has to `content`, until there is more than `most` in that. Returns false
// and sets errno when it cannot be read. May throw std::bad_alloc.
bool read_up_to(const File &file, std::size_t most, std::string &content);

// Some editors begin a file with one, which nobody sees: it is no part of a secret.
constexpr const char *kHasByteOrderMark = "it begins with a byte order mark";
constexpr const char *kHasByteOrderMarkHint = "Save it as UTF-8 without one.";
inline bool
has_byte_order_mark(std::string_view text) noexcept
{
    return text.substr(0, 3) == "\xef\xbb\xbf";
}

} // namespace outbox
