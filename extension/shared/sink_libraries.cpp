#include "sink_libraries.h"

#include <dlfcn.h>
#include <unistd.h>

extern "C"
{
#include "miscadmin.h"
}

namespace outbox
{

// Beside this library, which dynamic_library_path may have in a folder of its own.
char *
sink_library_path(const SinkKind &kind)
{
    static const char here = 0;
    Dl_info library;
    if (dladdr(&here, &library) == 0)
        return psprintf("%s/%s%s", pkglib_path, kind.library, DLSUFFIX);
    char *path = pstrdup(library.dli_fname);
    get_parent_directory(path);
    return psprintf("%s/%s%s", path, kind.library, DLSUFFIX);
}

bool
has_sink_library(const SinkKind &kind)
{
    return access(sink_library_path(kind), R_OK) == 0;
}

char *
sink_package(const SinkKind &kind)
{
    const char *const mark = strstr(kind.package, "%s");
    if (mark == nullptr)
        return pstrdup(kind.package);
    return psprintf("%.*s%s%s", static_cast<int>(mark - kind.package), kind.package,
                    PG_MAJORVERSION, mark + 2);
}

const SinkKind &
usable_sink(const char *name)
{
    const SinkKind *kind = find_sink_kind(name);
    if (kind == nullptr)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("there is no sink \"%s\"", name),
                 errhint("The function outbox.sinks() shows which there are.")));
    if (!has_sink_library(*kind))
        ereport(ERROR,
                (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                 errmsg("the library of sink \"%s\" is not installed", name),
                 errdetail("There is no file \"%s\".", sink_library_path(*kind)),
                 errhint("On Debian and Ubuntu, install the package %s; when outbox was built from "
                         "source, see what \"make\" has left out.",
                         sink_package(*kind))));
    return *kind;
}

const SinkKind *
sink_kind(const char *name)
{
    return find_sink_kind(name);
}

} // namespace outbox
