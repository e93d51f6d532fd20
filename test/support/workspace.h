#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace outbox::test
{

// Who runs PostgreSQL's programs, which refuse to run as root.
struct ServerUser
{
    uid_t uid;
    gid_t gid;
    std::vector<gid_t> groups;
};

// Empty when we are not root: then everything runs as ourselves.
const std::optional<ServerUser> &server_user();

// Gives `path` to the server's user, so that its programs may write there. Nothing to do without
// root.
void give_to_server_user(const std::filesystem::path &path);

// One directory for everything that this program starts: data directories, sockets, temporary
// files. It is made at first use, below build/ where the server's user can reach that, else below
// $TMPDIR, and removed when the program ends normally (OUTBOX_KEEP=1 keeps it). Its name holds
// $OUTBOX_RUN_TOKEN, by which scripts/check finds what a killed program left behind.
const std::filesystem::path &run_dir();

// The log of a server of this program with this name, not there yet. Logs are in $OUTBOX_LOG_DIR,
// which outlives the program, else below run_dir().
std::filesystem::path new_log(const std::string &name);

// A name that no other call in this program gave.
std::string unique_name(const std::string &prefix);

// A TCP port of 127.0.0.1 that nobody listens on, never the same one twice.
int free_port();

// Processes whose working directory is `dir` or below. Every server here works below run_dir(), so
// this finds them even when they are no children of ours and have rewritten their command line.
std::vector<pid_t> processes_below(const std::filesystem::path &dir);

std::string read_file(const std::filesystem::path &path);
void write_file(const std::filesystem::path &path, const std::string &text);

} // namespace outbox::test
