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
    const bool known = fd >= 0 && fstat(fd, &status) == 0;
    File file(known && S_ISREG(status.st_mode) ? fdopen(fd, "rb") : nullptr);
    if (file)
        return file;
    why = known && !S_ISREG(status.st_mode) ? "it is not a regular file" : std::strerror(errno);
    if (fd >= 0)
        (void) close(fd);
    return nullptr;
}

bool
read_up_to(const File &file, std::size_t most, std::string &content)
{
    char buffer[8192];
    std::size_t count = 0;
    while (content.size() <= most && (count = std::fread(buffer, 1, sizeof buffer, file.get())) > 0)
        content.append(buffer, count);
    return std::ferror(file.get()) == 0;
}

} // namespace outbox
