// Texts for tests that differ in one place.
#pragma once

#include <string>

#include <gtest/gtest.h>

namespace outbox::test
{

// The text with the first of this in it replaced; the test fails when it is not there.
inline std::string
replaced(std::string text, const std::string &what, const std::string &by)
{
    const std::size_t place = text.find(what);
    if (place == std::string::npos)
        ADD_FAILURE() << "there is no " << what;
    else
        text.replace(place, what.size(), by);
    return text;
}

} // namespace outbox::test
