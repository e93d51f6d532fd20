// Preloaded into a server: the host hook.test has the address that the file named by
// OUTBOX_TEST_HOST holds at the moment, as with a name server that changes its mind.
#include <dlfcn.h>
#include <netdb.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" int
getaddrinfo(const char *node, const char *service, const addrinfo *hints, addrinfo **result)
{
    using Function = int(const char *, const char *, const addrinfo *, addrinfo **);
    static auto *const real = reinterpret_cast<Function *>(dlsym(RTLD_NEXT, "getaddrinfo"));
    const char *path = getenv("OUTBOX_TEST_HOST");
    char address[64] = "";
    if (node != nullptr && path != nullptr && std::strcmp(node, "hook.test") == 0)
        if (std::FILE *file = std::fopen(path, "r"))
        {
            if (std::fgets(address, sizeof address, file) != nullptr)
                address[std::strcspn(address, "\n")] = '\0';
            (void) std::fclose(file);
        }
    return real(address[0] != '\0' ? address : node, service, hints, result);
}
