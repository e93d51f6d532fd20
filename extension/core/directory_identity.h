// What distinguishes a data directory from a copy of it.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace outbox
{

// The file that stands for the directory: its inode and, where the file system keeps it, when it
// was made. A fresh file system gives the same inodes again, but not the same nanosecond.
struct FileIdentity
{
    std::uint64_t inode;
    bool has_birth;
    std::int64_t birth_s;
    std::uint32_t birth_ns;
};

// One number for it: without a birth time the inode, as before 0.2.1.
inline std::int64_t
directory_identity(const FileIdentity &file) noexcept
{
    if (!file.has_birth)
        return static_cast<std::int64_t>(file.inode);
    // The finalizer of SplitMix64 (G. Steele et al., 2014) for each part.
    std::uint64_t mixed = 0;
    for (const std::uint64_t part :
         {file.inode, static_cast<std::uint64_t>(file.birth_s), std::uint64_t{file.birth_ns}})
    {
        mixed += part + 0x9e3779b97f4a7c15U;
        mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
        mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
        mixed ^= mixed >> 31;
    }
    return static_cast<std::int64_t>(mixed);
}

} // namespace outbox
