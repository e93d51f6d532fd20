#include "workspace.h"

#include "support/tree.h"
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>
#include <system_error>

#include <arpa/inet.h>
#include <grp.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fs = std::filesystem;

namespace outbox::test
{

namespace
{

std::optional<ServerUser>
find_server_user()
{
    if (geteuid() != 0)
        return std::nullopt;
    const passwd *entry = getpwnam("postgres");
    if (entry == nullptr)
        entry = getpwnam("nobody");
    if (entry == nullptr)
        throw std::runtime_error(
            "neither of the users postgres and nobody exists to run PostgreSQL");

    int count = 64;
    std::vector<gid_t> groups(static_cast<size_t>(count));
    if (getgrouplist(entry->pw_name, entry->pw_gid, groups.data(), &count) < 0)
        count = 0;
    groups.resize(static_cast<size_t>(count));
    return ServerUser{entry->pw_uid, entry->pw_gid, groups};
}

// Whether the server's user may pass through every directory down to `dir`.
bool
server_can_reach(const fs::path &dir)
{
    const auto &user = server_user();
    if (!user)
        return true;
    fs::path walked;
    for (const fs::path &part : dir)
    {
        walked /= part;
        struct stat info = {};
        if (stat(walked.c_str(), &info) != 0)
            return false;
        const bool passes = (info.st_mode & S_IXOTH) != 0 ||
                            (info.st_uid == user->uid && (info.st_mode & S_IXUSR) != 0) ||
                            (info.st_gid == user->gid && (info.st_mode & S_IXGRP) != 0);
        if (!passes)
            return false;
    }
    return true;
}

fs::path
temporary_base()
{
    const char *tmpdir = std::getenv("TMPDIR");
    return tmpdir != nullptr && *tmpdir != '\0' ? fs::path(tmpdir) : fs::path("/tmp");
}

struct RunDir
{
    RunDir()
    {
        fs::path base = in_build("run");
        std::error_code failed;
        fs::create_directories(base, failed);
        if (failed || !server_can_reach(base))
            base = temporary_base();
        const char *token = std::getenv("OUTBOX_RUN_TOKEN");
        std::string name =
            base / ("outbox-run-" + std::string(token != nullptr ? token : "by-hand") + ".XXXXXX");
        if (mkdtemp(name.data()) == nullptr)
            throw std::system_error(errno, std::generic_category(), "cannot make " + name);
        path = name;
        fs::permissions(path,
                        fs::perms::owner_all | fs::perms::group_exec | fs::perms::others_exec);
    }

    ~RunDir()
    {
        const char *keep = std::getenv("OUTBOX_KEEP");
        std::error_code
            ignored; // a leftover directory is no reason to fail, scripts/check removes it
        if (keep == nullptr || std::string(keep) != "1")
            fs::remove_all(path, ignored);
    }

    RunDir(const RunDir &) = delete;
    RunDir &operator=(const RunDir &) = delete;

    fs::path path;
};

bool
can_listen_on(int port)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        throw std::system_error(errno, std::generic_category(), "socket");
    const int on = 1;
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    // SO_REUSEADDR as the servers set it: a connection in TIME_WAIT does not make a port unusable.
    const bool free =
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        bind(fd, reinterpret_cast<const sockaddr *>(&address), sizeof(address)) == 0 &&
        listen(fd, 1) == 0;
    close(fd);
    return free;
}

} // namespace

const std::optional<ServerUser> &
server_user()
{
    static const std::optional<ServerUser> user = find_server_user();
    return user;
}

void
give_to_server_user(const fs::path &path)
{
    const auto &user = server_user();
    if (user && chown(path.c_str(), user->uid, user->gid) != 0)
        throw std::system_error(errno, std::generic_category(), "chown " + path.string());
}

const fs::path &
run_dir()
{
    static const RunDir dir;
    return dir.path;
}

fs::path
new_log(const std::string &name)
{
    static const fs::path dir = []
    {
        const char *wanted = std::getenv("OUTBOX_LOG_DIR");
        fs::path chosen = wanted != nullptr ? fs::path(wanted) : run_dir() / "logs";
        fs::create_directories(chosen);
        return chosen;
    }();
    // A program that a test starts, such as the demo, may log into the same directory.
    fs::path log = dir / (name + "." + std::to_string(getpid()) + ".log");
    fs::remove(log); // of an earlier run
    return log;
}

std::string
unique_name(const std::string &prefix)
{
    static std::atomic<int> counter{0};
    return prefix + std::to_string(++counter);
}

// Ports are taken from below the range that the kernel gives to outgoing connections. Inside that
// range a client that keeps trying a stopped server can be given the server's port as its own
// source port; it then connects to itself, and the server cannot come back.
int
free_port()
{
    constexpr int kFirst = 12000;
    constexpr int kLast = 32000;
    static std::mutex mutex;
    static std::set<int> given;
    static std::mt19937 random{std::random_device{}()};

    const std::lock_guard<std::mutex> lock(mutex);
    std::uniform_int_distribution<int> any_port(kFirst, kLast);
    for (int attempt = 0; attempt < 200; ++attempt)
    {
        const int port = any_port(random);
        if (given.count(port) == 0 && can_listen_on(port))
        {
            given.insert(port);
            return port;
        }
    }
    throw std::runtime_error("no free TCP port on 127.0.0.1");
}

std::vector<pid_t>
processes_below(const fs::path &dir)
{
    const std::string wanted = dir.string();
    std::vector<pid_t> found;
    for (const auto &entry : fs::directory_iterator("/proc"))
    {
        const std::string name = entry.path().filename();
        if (!std::all_of(name.begin(), name.end(),
                         [](unsigned char c) { return std::isdigit(c) != 0; }))
            continue;
        std::error_code gone; // processes end while we look
        const std::string cwd = fs::read_symlink(entry.path() / "cwd", gone);
        if (gone || cwd.compare(0, wanted.size(), wanted) != 0)
            continue;
        if (cwd.size() == wanted.size() || cwd[wanted.size()] == '/')
            found.push_back(static_cast<pid_t>(std::stol(name)));
    }
    return found;
}

std::string
read_file(const fs::path &path)
{
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void
write_file(const fs::path &path, const std::string &text)
{
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out << text;
    out.close();
    if (!out)
        throw std::runtime_error("cannot write " + path.string());
}

} // namespace outbox::test
