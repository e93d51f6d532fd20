#include "sink_library.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace outbox
{

namespace
{

const SinkModule *
refuse_library(Failure &why, const char *name, const char *path, const char *text,
               const char *package)
{
    set_failure(why, FailureClass::config, name, "the library \"%s\" %s", path, text);
    (void) std::snprintf(why.hint, sizeof why.hint,
                         "Install the package %s of the extension's version, or what \"make\" has "
                         "built; the relay tries again by itself.",
                         package);
    return nullptr;
}

bool
read_at(int fd, std::size_t at, void *to, std::size_t size) noexcept
{
    return pread(fd, to, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size);
}

// Whether the file ends before what is mapped of it: it is being written, or the disk was full.
// dlopen() does not look, and who touches what is missing gets SIGBUS, for which the server ends
// all of its processes.
bool
is_cut(const char *path) noexcept
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status = {};
    ElfW(Ehdr) header = {};
    bool cut = false;
    if (fd >= 0 && fstat(fd, &status) == 0 && read_at(fd, 0, &header, sizeof header) &&
        std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0)
    {
        const auto size = static_cast<std::size_t>(status.st_size);
        for (std::size_t i = 0; i < header.e_phnum && !cut; i++)
        {
            ElfW(Phdr) part = {};
            cut = !read_at(fd, header.e_phoff + i * sizeof part, &part, sizeof part) ||
                  (part.p_type == PT_LOAD &&
                   (part.p_offset > size || part.p_filesz > size - part.p_offset));
        }
    }
    if (fd >= 0)
        (void) close(fd);
    return cut;
}

} // namespace

// It is never unloaded: its threads, and what it has registered, stay to the end of the process.
const SinkModule *
load_sink_library(const SinkKind &kind, const char *path, const char *package,
                  Failure &why) noexcept
{
    if (access(path, F_OK) != 0)
        return refuse_library(why, "NOT_INSTALLED", path, "is not installed", package);
    if (is_cut(path))
        return refuse_library(why, "NOT_WHOLE", path, "is not whole", package);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
        return refuse_library(why, "NOT_LOADED", path, dlerror(), package);
    auto *get = reinterpret_cast<GetSinkModule *>(dlsym(library, kSinkModuleSymbol));
    const SinkModule *module = get != nullptr ? get() : nullptr;
    if (module == nullptr || std::strcmp(module->version, OUTBOX_VERSION) != 0 ||
        std::strcmp(module->name, kind.name) != 0)
        return refuse_library(why, "OTHER_VERSION", path, "is not that of outbox " OUTBOX_VERSION,
                              package);
    return module;
}

} // namespace outbox
