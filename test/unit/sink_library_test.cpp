// A sink's library that is not as it was installed.
#include "bgworker/relay/sink_library.h"

#include "support/workspace.h"

#include <librdkafka/rdkafka.h>

#include <gtest/gtest.h>

#include <dlfcn.h>

namespace outbox::test
{

namespace
{

std::string
fault_of(const std::string &path)
{
    SinkKind kind = {};
    kind.name = "none";
    Failure why;
    EXPECT_EQ(load_sink_library(kind, path.c_str(), "a-package", why), nullptr);
    EXPECT_EQ(why.cls, FailureClass::config);
    EXPECT_NE(std::string(why.text).find(path), std::string::npos) << why.text;
    EXPECT_NE(std::string(why.hint).find("a-package"), std::string::npos) << why.hint;
    return why.name;
}

// Some library that is there.
std::string
whole_library()
{
    Dl_info info = {};
    (void) dladdr(reinterpret_cast<void *>(&rd_kafka_version), &info);
    return info.dli_fname != nullptr ? info.dli_fname : "";
}

// While it is copied, or when the disk is full; whoever runs what is missing is killed.
TEST(SinkLibrary, WhatIsMissingAtItsEndIsNotLoaded)
{
    constexpr std::size_t kCuts = 50;
    const std::string original = whole_library();
    const std::string whole = read_file(original);
    ASSERT_GT(whole.size(), kCuts);
    EXPECT_EQ(fault_of(original), "OTHER_VERSION"); // it is none of ours
    const std::string path = run_dir() / unique_name("library");
    for (std::size_t i = 0; i < kCuts; i++)
    {
        write_file(path, whole.substr(0, whole.size() / kCuts * i));
        const std::string name = fault_of(path);
        EXPECT_TRUE(name == "NOT_WHOLE" || (i == 0 && name == "NOT_LOADED")) << i << ": " << name;
    }
}

TEST(SinkLibrary, WhatIsNoLibraryIsNotLoaded)
{
    const std::string path = run_dir() / unique_name("library");
    EXPECT_EQ(fault_of(path), "NOT_INSTALLED");
    EXPECT_EQ(fault_of(run_dir()), "NOT_LOADED");
    write_file(path, "garbage");
    EXPECT_EQ(fault_of(path), "NOT_LOADED");
}

} // namespace

} // namespace outbox::test
