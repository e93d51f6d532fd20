#include "support/tree.h"

namespace outbox::test
{

std::string
in_source(const std::string &path)
{
    return OUTBOX_SOURCE_DIR "/" + path;
}

std::string
in_build(const std::string &path)
{
    return OUTBOX_BUILD_DIR "/" + path;
}

} // namespace outbox::test
