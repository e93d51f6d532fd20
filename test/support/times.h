// A text several times.
#pragma once

#include <string>

namespace outbox::test
{

inline std::string
times(int count, const std::string &one)
{
    std::string many;
    for (int i = 0; i < count; i++)
        many += one;
    return many;
}

} // namespace outbox::test
