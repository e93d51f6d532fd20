#include "extension/core/directory_identity.h"

#include <gtest/gtest.h>

#include <set>

namespace outbox
{
namespace
{

TEST(DirectoryIdentity, WithoutABirthTimeIsTheInode)
{
    EXPECT_EQ(directory_identity({4711, false, 0, 0}), 4711);
    EXPECT_EQ(directory_identity({4711, false, 99, 99}), 4711);
}

TEST(DirectoryIdentity, IsAnotherForEachInodeAndEachBirth)
{
    std::set<std::int64_t> seen;
    for (std::uint64_t inode = 1; inode <= 20; ++inode)
        for (std::int64_t second = 1700000000; second < 1700000020; ++second)
            for (std::uint32_t ns = 0; ns < 20; ++ns)
            {
                const std::int64_t number = directory_identity({inode, true, second, ns});
                seen.insert(number);
                EXPECT_EQ(number, directory_identity({inode, true, second, ns}));
            }
    EXPECT_EQ(seen.size(), 8000U);
}

} // namespace
} // namespace outbox
