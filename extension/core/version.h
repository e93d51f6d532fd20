// Versions of the extension, as pg_extension has them.
#pragma once

#include <string_view>

namespace outbox
{

// Negative, 0 or positive as `a` is older than, the same as, or newer than `b`: numbers between
// dots are compared as numbers ("0.10" is newer than "0.9", and "1" is "1.0"). What is no such
// version, say "unpackaged" or "0.2-test", is older than every version, and equal only to its own
// text.
int compare_versions(std::string_view a, std::string_view b);

} // namespace outbox
