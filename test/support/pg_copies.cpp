// Copies of a cluster: base backups, standbys, snapshots of a disk; and what standbys go through.
#include "pg_cluster.h"

#include <csignal>
#include <stdexcept>

#include "pg.h"
#include "workspace.h"

namespace outbox::test
{

namespace
{

constexpr auto kCopyLimit = std::chrono::seconds(60);
constexpr auto kPromoteLimit = std::chrono::seconds(30);

Command
as_server(const std::vector<std::string> &argv)
{
    Command command(argv);
    command.as_server_user = true;
    return command;
}

} // namespace

// The copy brings postgresql.conf along, which includes harness.conf.
void
PgCluster::adopt_settings(const PgCluster &source, const Settings &settings)
{
    settings_ = source.settings_;
    settings_["port"] = std::to_string(port_);
    settings_["unix_socket_directories"] = socket_dir_.string();
    for (const auto &[name, value] : settings)
        settings_[name] = value;
    write_settings();
}

void
PgCluster::copy_from(const PgCluster &source, const Settings &settings)
{
    run_or_throw(as_server({program("pg_basebackup"), "--pgdata=" + data_dir_.string(),
                            "--dbname=" + source.conninfo("postgres"), "--wal-method=stream",
                            "--checkpoint=fast", "--no-sync"}),
                 kCopyLimit);
    adopt_settings(source, settings);
}

void
PgCluster::follow(const PgCluster &primary, const std::string &name, const Settings &settings)
{
    Settings all = settings;
    all.emplace("primary_conninfo", primary.conninfo("postgres") + " application_name=" + name);
    all.emplace("wal_retrieve_retry_interval", "100ms");
    all.emplace("wal_receiver_status_interval", "1s");
    all.emplace("synchronous_standby_names", "");
    copy_from(primary, all);
    write_file(data_dir_ / "standby.signal", "");
    give_to_server_user(data_dir_ / "standby.signal");
}

void
PgCluster::copy_files_from(const PgCluster &source, const Settings &settings)
{
    run_or_throw(as_server({"cp", "-a", source.data_dir_.string(), data_dir_.string()}),
                 kCopyLimit);
    std::filesystem::remove(data_dir_ / "postmaster.pid");
    adopt_settings(source, settings);
}

void
PgCluster::promote()
{
    Db db(*this, "postgres");
    db.exec("select pg_promote(false)");
    if (!wait_until(kPromoteLimit, [&] { return db.value("select pg_is_in_recovery()") == "f"; }))
        throw std::runtime_error("the standby was not promoted, see " + log_.string());
}

void
PgCluster::pause()
{
    // The postmaster first: what it starts meanwhile would not be stopped.
    server_->pause();
    for (const pid_t pid : processes_below(data_dir_))
        kill(pid, SIGSTOP);
}

void
PgCluster::resume()
{
    for (const pid_t pid : processes_below(data_dir_))
        kill(pid, SIGCONT);
    server_->resume();
}

} // namespace outbox::test
