#pragma once

#include <string>

namespace outbox::test
{

// Where this tree was when it was compiled: only tree.cpp knows, so that no other object depends on
// the place. `path` is relative: "scripts/fetch-kafka", "outboxctl/outboxctl".
std::string in_source(const std::string &path);
std::string in_build(const std::string &path);

} // namespace outbox::test
