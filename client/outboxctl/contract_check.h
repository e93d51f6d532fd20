// Everything that one contract is checked for.
#pragma once

#include "contract.h"

#include <string>

namespace outbox::ctl
{

// Checks a contract: its form, its schemas, that the examples conform to the schema of their
// version and counterexamples do not, and that versions are compatible as they say. Takes as long
// as the schemas' patterns and references make it.
Contract check_contract(const std::string &text, Problems &problems);

} // namespace outbox::ctl
