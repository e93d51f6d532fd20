// The file that a data directory is known by.
#pragma once

#include <sys/stat.h>

#include <fcntl.h>

#include "extension/core/directory_identity.h"

#include "pg.h"

extern "C"
{
#include "access/xlog_internal.h"
}

namespace outbox
{

inline FileIdentity
control_file_identity()
{
    struct stat plain;
    if (stat(XLOG_CONTROL_FILE, &plain) != 0)
        ereport(ERROR, (errcode_for_file_access(),
                        errmsg("could not stat file \"%s\": %m", XLOG_CONTROL_FILE)));
    FileIdentity identity = {plain.st_ino, false, 0, 0};
#ifdef STATX_BTIME
    // Not every kernel and file system has it.
    struct statx more;
    if (statx(AT_FDCWD, XLOG_CONTROL_FILE, 0, STATX_BTIME, &more) == 0 &&
        (more.stx_mask & STATX_BTIME) != 0)
    {
        identity.has_birth = true;
        identity.birth_s = more.stx_btime.tv_sec;
        identity.birth_ns = more.stx_btime.tv_nsec;
    }
#endif
    return identity;
}

} // namespace outbox
