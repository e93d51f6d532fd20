#include "bgworker/engine/failure.h"

#include <gtest/gtest.h>

#include <cstring>
#include <new>
#include <string>

using namespace outbox;

namespace
{

// Memory that holds something else when a failure is made in it, as a stack's does.
class Failures : public testing::Test
{
protected:
    Failures() : failure_(*new (place()) Failure) {}

    void expect(const std::string &name, const std::string &text, const std::string &hint)
    {
        EXPECT_EQ(failure_.name, name);
        EXPECT_EQ(failure_.text, text);
        EXPECT_EQ(failure_.hint, hint);
    }

    alignas(Failure) unsigned char memory_[sizeof(Failure)];
    Failure &failure_;

private:
    void *place()
    {
        std::memset(memory_, 'x', sizeof memory_);
        return memory_;
    }
};

} // namespace

TEST_F(Failures, ANewOneSaysNothing)
{
    expect("", "", "");
    EXPECT_EQ(failure_.cls, FailureClass::none);
}

TEST_F(Failures, TextsOfAllLengthsAreCutToFit)
{
    for (size_t length = 0; length < 3 * sizeof failure_.text; length++)
    {
        const std::string text(length, 'a');
        set_failure(failure_, FailureClass::event, text.c_str(), "%s", text.c_str());
        set_hint(failure_, text);
        const auto cut = [&](size_t size) { return text.substr(0, size - 1); };
        expect(cut(sizeof failure_.name), cut(sizeof failure_.text), cut(sizeof failure_.hint));
        set_failure(failure_, FailureClass::event, "B", "b");
        expect("B", "b", "");
    }
}
