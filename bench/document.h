// The plots and docs/benchmarks.md: what was measured, as a page.
#pragma once

#include <filesystem>

namespace outbox::bench
{

// Draws the figures that are in `directory`, the newest of each part, into it. If there is a page,
// also beside that, and replaces what is between the marks of the page (which is made if it is not
// there) by tables and plots; the rest of the page, which people write, is left alone.
void write_document(const std::filesystem::path &directory, const std::filesystem::path &page);

} // namespace outbox::bench
