// docs/benchmarks.md: what a run measured, as a page.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "plots.h"

namespace outbox::bench
{

// Replaces what is between the marks of `page` (which is made if it is not there) by tables of the
// results and the plots, and leaves the rest of the page, which people write, alone. The plots are
// referred to below `plots_directory`, relative to the page.
void write_document(const Json &results, const std::vector<Plot> &plots,
                    const std::string &plots_directory, const std::filesystem::path &page);

} // namespace outbox::bench
