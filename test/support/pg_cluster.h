#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "process.h"

namespace outbox::test
{

using Settings = std::map<std::string, std::string>;

enum class Shutdown
{
    kSmart,
    kFast,
    kImmediate
};

// What a test says that skips because PgCluster::can_dump() is false.
constexpr const char *kCannotDump =
    "the pg_dump of this PostgreSQL crashes on partitions of an extension; set "
    "OUTBOX_TEST_NEWER_PG_CONFIG to the pg_config of a 15 or 16";

// A PostgreSQL cluster of our own: its own data directory, a free port of 127.0.0.1, a Unix socket,
// trust authentication, superuser "postgres", the extension preloaded. It never touches the
// machine's clusters. The programs are those of `pg_config` if it is given, else of $PG_CONFIG
// (default: pg_config in the PATH).
class PgCluster
{
public:
    explicit PgCluster(const std::string &name = "pg", const std::string &pg_config = "");
    ~PgCluster();
    PgCluster(const PgCluster &) = delete;
    PgCluster &operator=(const PgCluster &) = delete;

    // Makes the data directory. `settings` are added to the harness's own and win over them.
    void init(const Settings &settings = {}, const std::vector<std::string> &initdb_options = {});

    // Makes the data directory a copy of a running cluster's, with the same settings and these: as
    // pg_basebackup leaves it, or a standby that follows it under the application name `name`.
    void copy_from(const PgCluster &source, const Settings &settings = {});
    void follow(const PgCluster &primary, const std::string &name, const Settings &settings = {});

    // Makes the data directory a copy of another's files, as a snapshot of a disk would be. The
    // source must not run.
    void copy_files_from(const PgCluster &source, const Settings &settings = {});

    // Turns a running standby into a primary, and waits until it is one.
    void promote();

    // Every process of the server stands still (SIGSTOP), or continues.
    void pause();
    void resume();

    // Starts the server and waits until it accepts connections.
    void start();

    // Ends the server and says how long that took. Throws if it had to be killed, because a server
    // that does not stop is a fault in itself.
    Milliseconds stop(Shutdown how = Shutdown::kFast);

    // Kills the postmaster alone, as the kernel's OOM killer would, and waits until its children,
    // who notice by themselves, are gone.
    void kill9();

    void restart(Shutdown how = Shutdown::kFast);
    // For its command line, from the next start on.
    void pass(std::vector<std::string> words) { words_ = std::move(words); }

    // From its next start on the server's time of day can be set, and is right until then. The
    // steady clock is the machine's.
    void make_clock_settable();
    void set_clock(std::chrono::seconds ahead) const;

    // From its next start on its processes stand still at times, see test/preload.
    void pause_anywhere() { pauses_ = true; }

    // From its next start on the host hook.test has the address that this file holds.
    void move_host(const std::filesystem::path &file) { host_ = file; }

    bool running() { return server_ && server_->running(); }
    Process &postmaster() { return *server_; }

    // Sets one parameter in the configuration file. It takes effect at the next reload() or
    // start().
    void configure(const std::string &name, const std::string &value);
    void unconfigure(const std::string &name); // takes it out
    void reload();

    std::string conninfo(const std::string &database) const;
    int port() const { return port_; }
    const std::filesystem::path &socket_dir() const { return socket_dir_; }
    const std::filesystem::path &data_dir() const { return data_dir_; }

    // The path of one of PostgreSQL's programs, say program("pg_dump"): of $PG_CONFIG, or of this
    // cluster's own installation.
    static std::string program(const std::string &name);
    // As program(), for pg_dump and what reads its dumps. The pg_dump of PostgreSQL 13 and 14
    // crashes on partitions of an extension; for those servers it is that of
    // $OUTBOX_TEST_NEWER_PG_CONFIG, 15 or 16, as the dumps of later ones name settings that such a
    // server does not have.
    static std::string dump_program(const std::string &name);
    static bool can_dump();
    std::string own_program(const std::string &name) const { return (bin_dir_ / name).string(); }

    std::string log_text() const { return log_.empty() ? std::string() : read_log(); }
    bool log_contains(const std::string &text) const;
    const std::filesystem::path &log_file() const { return log_; }

    // Lines that tell of a server process that crashed, each reported once. A test that kills
    // server processes says so with expect_kill(); other signals, PANIC and failed assertions stay
    // crashes.
    std::vector<std::string> new_crashes();
    void expect_kill() { kill_expected_ = true; }

private:
    std::string read_log() const;
    std::string log_tail() const;
    void write_settings() const;
    void adopt_settings(const PgCluster &source, const Settings &settings);
    bool accepts_connections() const;

    std::filesystem::path bin_dir_;
    std::filesystem::path
        home_; // holds the data directory and, if its path is short enough, the socket
    std::filesystem::path data_dir_;
    std::filesystem::path socket_dir_;
    std::filesystem::path log_;
    std::filesystem::path clock_; // empty: the machine's
    bool pauses_ = false;
    std::filesystem::path host_; // see move_host()
    Settings settings_;
    std::vector<std::string> words_;
    int port_;
    bool kill_expected_ = false;
    size_t log_checked_ = 0;
    std::unique_ptr<Process> server_;
};

} // namespace outbox::test
