#include "regular_file.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace outbox
{

File
open_regular_file(const std::string &path, std::string &why)
{
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat status = {};
    if (fd < 0 || fstat(fd, &status) != 0)
        why = std::strerror(errno);
    else if (!S_ISREG(status.st_mode))
        why = "it is not a regular file";
    else if (File file{fdopen(fd, "rb")})
        return file;
    else
        why = std::strerror(errno);
    if (fd >= 0)
        (void) close(fd);
    return nullptr;
}

} // namespace outbox
