#include "contract_folder.h"

#include "errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace outbox::ctl
{

namespace
{

namespace fs = std::filesystem;

constexpr std::size_t kLargestFile = 256UL * 1024;
constexpr std::size_t kMostEntries = 10000; // in one directory, and contracts in all

class Descriptor
{
public:
    explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
    ~Descriptor()
    {
        if (descriptor_ >= 0)
            (void) ::close(descriptor_); // was only read from
    }
    Descriptor(const Descriptor &) = delete;
    Descriptor &operator=(const Descriptor &) = delete;
    int get() const { return descriptor_; }

private:
    int descriptor_;
};

// The names in a directory but hidden ones, in order.
std::vector<fs::directory_entry>
entries_of(const std::string &directory)
{
    std::error_code error;
    std::vector<fs::directory_entry> entries;
    for (auto it = fs::directory_iterator(directory, error);
         !error && it != fs::directory_iterator(); it.increment(error))
        if (it->path().filename().native()[0] != '.')
        {
            entries.push_back(*it);
            if (entries.size() > kMostEntries)
                throw Error(kFailed, fmt::format("there are more than {} files in \"{}\"",
                                                 kMostEntries, directory));
        }
    if (error)
        throw Error(kFailed, "cannot read the directory \"" + directory + "\": " + error.message());
    std::sort(entries.begin(), entries.end());
    return entries;
}

// Only words of lower-case letters and digits with hyphens between them.
bool
is_plain_name(const std::string &name)
{
    return !name.empty() && name.front() != '-' && name.back() != '-' &&
           name.find("--") == std::string::npos &&
           name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
}

class Reading
{
public:
    Folder read(const std::string &directory)
    {
        for (const fs::directory_entry &entry : entries_of(directory))
        {
            const std::string name = entry.path().filename();
            if (entry.is_symlink())
                refuse(entry, "is a symbolic link, which is not followed");
            else if (entry.is_directory())
                read_domain(entry, name);
            else if (name == "TEMPLATE.md")
                add_file(entry, "TEMPLATE", true);
            else if (name != "README.md")
                refuse(entry, "does not belong here: contracts are in directories of their "
                              "domains");
        }
        return std::move(folder_);
    }

private:
    void refuse(const fs::directory_entry &entry, const std::string &why)
    {
        folder_.problems.push_back({entry.path(), {1, "this " + why}});
    }

    void read_domain(const fs::directory_entry &domain, const std::string &domain_name)
    {
        if (!is_plain_name(domain_name))
            refuse(domain, "is no name of a domain: lower-case letters, digits, single hyphens");
        for (const fs::directory_entry &entry : entries_of(domain.path()))
        {
            const std::string name = entry.path().filename();
            if (entry.is_symlink())
                refuse(entry, "is a symbolic link, which is not followed");
            else if (entry.is_directory())
                refuse(entry, "is a directory, and domains have none below them");
            else if (entry.path().extension() != ".md")
                refuse(entry, "is no contract: their names end in .md");
            else if (name != "README.md")
                add_file(entry, entry.path().stem(), false);
        }
    }

    void add_file(const fs::directory_entry &entry, const std::string &name, bool is_template)
    {
        if (folder_.files.size() == kMostEntries)
            throw Error(kFailed, fmt::format("there are more than {} contracts", kMostEntries));
        folder_.files.push_back({entry.path(), name, is_template});
    }

    Folder folder_;
};

} // namespace

Folder
read_folder(const std::string &directory)
{
    return Reading().read(directory);
}

std::string
read_contract(const ContractFile &contract, std::string &text)
{
    // A link or a pipe that comes in between is not followed, and not waited for.
    const Descriptor file(
        ::open(contract.path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat status = {};
    if (file.get() < 0 || ::fstat(file.get(), &status) != 0)
        return std::string("cannot be read: ") + std::strerror(errno);
    if (!S_ISREG(status.st_mode))
        return "is no file";
    text.resize(kLargestFile + 1);
    std::size_t size = 0;
    while (size < text.size())
    {
        const ssize_t count = ::read(file.get(), &text[size], text.size() - size);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return std::string("cannot be read: ") + std::strerror(errno);
        if (count == 0)
            break;
        size += static_cast<std::size_t>(count);
    }
    text.resize(size);
    return size > kLargestFile ? fmt::format("is larger than {} KiB", kLargestFile / 1024) : "";
}

} // namespace outbox::ctl
