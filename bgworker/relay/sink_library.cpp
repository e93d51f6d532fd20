#include "sink_library.h"

#include <dlfcn.h>
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

} // namespace

// It is never unloaded: its threads, and what it has registered, stay to the end of the process.
const SinkModule *
load_sink_library(const SinkKind &kind, const char *path, const char *package,
                  Failure &why) noexcept
{
    if (access(path, F_OK) != 0)
        return refuse_library(why, "NOT_INSTALLED", path, "is not installed", package);
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
