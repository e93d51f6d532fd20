// pgbouncer in transaction mode: each transaction gets some connection, with what the ones before
// have left in it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "support/pg_cluster.h"
#include "support/process.h"
#include "support/workspace.h"

namespace outbox::test
{

// On a free port of 127.0.0.1.
class Pooler
{
public:
    explicit Pooler(PgCluster &server, int connections = 2) : port_(free_port())
    {
        const std::filesystem::path dir = run_dir() / unique_name("pgbouncer-");
        std::filesystem::create_directory(dir);
        write_file(dir / "users", "\"postgres\" \"\"\n");
        write_file(
            dir / "pgbouncer.ini",
            "[databases]\n* = host=127.0.0.1 port=" + std::to_string(server.port()) +
                " user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = " +
                std::to_string(port_) +
                "\nunix_socket_dir =\nauth_type = any\nauth_file = " + (dir / "users").string() +
                "\npool_mode = transaction\ndefault_pool_size = " + std::to_string(connections) +
                "\n");
        give_to_server_user(dir);
        const char *path = std::getenv("PATH");
        Command command({"pgbouncer", (dir / "pgbouncer.ini").string()});
        command.environment["PATH"] =
            std::string(path == nullptr ? "/usr/bin" : path) + ":/usr/sbin";
        command.as_server_user = true;
        command.output = new_log("pgbouncer");
        process_ = std::make_unique<Process>(command);
    }
    int port() const { return port_; }
    std::string conninfo(const std::string &database) const
    {
        return "host=127.0.0.1 user=postgres port=" + std::to_string(port_) + " dbname=" + database;
    }

private:
    const int port_;
    std::unique_ptr<Process> process_;
};

} // namespace outbox::test
