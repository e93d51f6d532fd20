#include "stack.h"

#include <filesystem>
#include <regex>
#include <stdexcept>

#include "support/pg.h"
#include "support/tree.h"
#include "support/workspace.h"

namespace outbox::test
{

namespace
{

constexpr auto kStartLimit = std::chrono::seconds(30);

// A shipped file that has changed must not leave a test without what it changes in it.
std::string
replaced(const std::string &text, const std::string &pattern, const std::string &by)
{
    std::string result = std::regex_replace(text, std::regex(pattern), by);
    if (result == text)
        throw std::runtime_error("there is no " + pattern + " in it:\n" + text);
    return result;
}

std::string
address(int port)
{
    return "127.0.0.1:" + std::to_string(port);
}

std::string
url_of(const PgCluster &server, const std::string &database)
{
    return "postgres://" + std::string(MonitoringStack::kRole) + "@" + address(server.port()) +
           "/" + database + "?sslmode=disable";
}

std::unique_ptr<Process>
start(const std::string &name, std::vector<std::string> argv,
      const std::map<std::string, std::string> &environment = {})
{
    Command command(std::move(argv));
    command.output = new_log(name).string();
    command.environment = environment;
    return std::make_unique<Process>(command);
}

// Waits for the first answer that has something about outbox.
void
wait_for_exporter(Process &exporter, const std::string &name, int port)
{
    const auto answers = [&]
    {
        if (!exporter.running())
            throw std::runtime_error(name + " has ended, see its log");
        const Finished got = run(Command({"curl", "--silent", "--fail", "--max-time", "5",
                                          "http://" + address(port) + "/metrics"}));
        return got.ok() && got.output.find("outbox_relay") != std::string::npos;
    };
    if (!wait_until(kStartLimit, answers))
        throw std::runtime_error(name + " shows nothing of outbox, see its log");
}

void
create_role(const PgCluster &server, const std::string &database)
{
    const std::string role = MonitoringStack::kRole;
    Db db(server, database);
    if (db.exec("select from pg_roles where rolname = $1", role).rows() == 0)
        db.exec("create role " + role + " login");
    db.exec("alter role " + role + " set lock_timeout = '200ms'");
    db.exec("select outbox.grant_monitor($1::regrole)", role);
}

} // namespace

std::string
shipped(const std::string &file)
{
    return read_file(in_source("monitoring/" + file));
}

MonitoringStack::MonitoringStack(const PgCluster &server, const std::string &database)
    : prometheus_port_(free_port()), prometheus_(prometheus_port_)
{
    create_role(server, database);
    const std::filesystem::path home = run_dir() / unique_name("monitoring");
    std::filesystem::create_directories(home);
    const std::string queries = in_source("monitoring/postgres_exporter.yml");

    const int port = free_port();
    postgres_exporter_ =
        start("postgres_exporter",
              {"prometheus-postgres-exporter", "--web.listen-address=" + address(port),
               "--extend.query-path=" + queries},
              {{"DATA_SOURCE_NAME", url_of(server, database)}});
    const int sql_port = free_port();
    std::string config = replaced(shipped("prometheus.yml"), "localhost:9187", address(port));
    config = replaced(config, "localhost:9237", address(sql_port));
    config = replaced(config, "_interval: 15s", "_interval: 1s");
    std::string sql = replaced(shipped("sql_exporter.yml"), "interval: 15s", "interval: 1s");
    sql = replaced(sql, "'postgres://[^']*'", "'" + url_of(server, database) + "'");
    write_file(home / "sql_exporter.yml", sql);
    sql_exporter_ = start("sql_exporter",
                          {"prometheus-sql-exporter", "-web.listen-address=" + address(sql_port),
                           "-config.file=" + (home / "sql_exporter.yml").string()});
    wait_for_exporter(*sql_exporter_, "sql_exporter", sql_port);
    wait_for_exporter(*postgres_exporter_, "postgres_exporter", port);

    write_file(home / "alerts.yml", replaced(shipped("alerts.yml"), "for: \\d+[mh]", "for: 1s"));
    write_file(home / "prometheus.yml", config);
    prometheus_process_ = start(
        "prometheus", {"prometheus", "--config.file=" + (home / "prometheus.yml").string(),
                       "--storage.tsdb.path=" + (home / "data").string(),
                       "--web.listen-address=" + address(prometheus_port_), "--log.level=warn"});
    const auto measured = [&]
    {
        if (!prometheus_process_->running())
            throw std::runtime_error("prometheus has ended, see its log");
        return prometheus_.ready() && prometheus_.value("count(outbox_relay_in_state == 1)") == 2.0;
    };
    if (!wait_until(kStartLimit, measured))
        throw std::runtime_error("prometheus gets nothing from the exporters, see its log");
}

} // namespace outbox::test
