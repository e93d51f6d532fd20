#include "pg_cluster.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include <libpq-fe.h>
#include <sys/un.h>

#include "pg_template.h"
#include "tree.h"
#include "workspace.h"

namespace fs = std::filesystem;

namespace outbox::test
{

namespace
{

constexpr auto kStartLimit = std::chrono::seconds(60);
constexpr auto kStopLimit = std::chrono::seconds(30);

std::string
default_pg_config()
{
    const char *wanted = std::getenv("PG_CONFIG");
    return wanted != nullptr && *wanted != '\0' ? wanted : "pg_config";
}

std::string
bin_dir(const std::string &pg_config)
{
    std::string dir = run_or_throw(Command({pg_config, "--bindir"}));
    dir.erase(dir.find_last_not_of('\n') + 1);
    return dir;
}

// "pg_dump (PostgreSQL) 15.20 (Debian ...)" says 15.
int
pg_dump_major(const std::string &bin)
{
    const std::string text = run_or_throw(Command({bin + "/pg_dump", "--version"}));
    return std::stoi(text.substr(text.find(") ") + 2));
}

const std::optional<std::string> &
dump_bin_dir()
{
    static const auto dir = []() -> std::optional<std::string>
    {
        constexpr int kFirstThatDumps = 15;
        const std::string own = bin_dir(default_pg_config());
        const char *newer = std::getenv("OUTBOX_TEST_NEWER_PG_CONFIG");
        if (pg_dump_major(own) >= kFirstThatDumps)
            return own;
        if (newer == nullptr || pg_dump_major(bin_dir(newer)) < kFirstThatDumps)
            return std::nullopt;
        return bin_dir(newer);
    }();
    return dir;
}

// The longest socket name in `dir` must fit into sockaddr_un. A clone in a deep directory does not
// leave room for that, and the socket then goes to a directory of its own below /tmp.
fs::path
choose_socket_dir(const fs::path &dir)
{
    const std::string longest = (dir / ".s.PGSQL.65535.lock").string();
    if (longest.size() < sizeof(sockaddr_un::sun_path))
        return dir;
    std::string name = "/tmp/outbox-socket.XXXXXX";
    if (mkdtemp(name.data()) == nullptr)
        throw std::system_error(errno, std::generic_category(), "cannot make " + name);
    return name;
}

int
signal_of(Shutdown how)
{
    switch (how)
    {
    case Shutdown::kSmart:
        return SIGTERM;
    case Shutdown::kFast:
        return SIGINT;
    case Shutdown::kImmediate:
        break;
    }
    return SIGQUIT;
}

// Quoted as both postgresql.conf and libpq's connection strings read it.
std::string
quoted(const std::string &value)
{
    std::string text = "'";
    for (const char c : value)
    {
        if (c == '\'' || c == '\\')
            text += '\\';
        text += c;
    }
    return text + "'";
}

bool
tells_of_crash(const std::string &line, bool kill_expected)
{
    // The last one: a record that Kafka refused was taken for Kafka's being away.
    static const std::array<const char *, 8> signs = {"terminated by signal",
                                                      "PANIC:",
                                                      "TRAP:",
                                                      "egmentation fault",
                                                      "AddressSanitizer",
                                                      "terminate called",
                                                      "outbox test: ",
                                                      "cannot publish: _GAPLESS_GUARANTEE"};
    if (kill_expected && line.find("terminated by signal 9") != std::string::npos)
        return false;
    for (const char *sign : signs)
        if (line.find(sign) != std::string::npos)
            return true;
    return false;
}

} // namespace

std::string
PgCluster::program(const std::string &name)
{
    static const std::string dir = bin_dir(default_pg_config());
    return dir + "/" + name;
}

bool
PgCluster::can_dump()
{
    return dump_bin_dir().has_value();
}

std::string
PgCluster::dump_program(const std::string &name)
{
    return can_dump() ? *dump_bin_dir() + "/" + name : program(name);
}

PgCluster::PgCluster(const std::string &name, const std::string &pg_config)
    : bin_dir_(pg_config.empty() ? fs::path(program("postgres")).parent_path()
                                 : fs::path(bin_dir(pg_config))),
      port_(free_port())
{
    const std::string own_name = unique_name(name + "-");
    home_ = run_dir() / own_name;
    fs::create_directory(home_);
    give_to_server_user(home_);
    data_dir_ = home_ / "data";
    log_ = new_log(own_name);
    socket_dir_ = choose_socket_dir(home_);
    give_to_server_user(socket_dir_);
}

PgCluster::~PgCluster()
{
    if (server_)
        server_->stop(SIGQUIT, kStopLimit);
    std::error_code ignored; // what stays is below run_dir(), which goes at the end
    fs::remove_all(home_, ignored);
    fs::remove_all(socket_dir_, ignored);
}

void
PgCluster::init(const Settings &settings, const std::vector<std::string> &initdb_options)
{
    settings_ = {
        {"shared_preload_libraries", "outbox"},
        {"max_prepared_transactions", "20"},
        {"max_connections", "60"},
        {"max_worker_processes", "16"},
        {"shared_buffers", "32MB"},
        {"listen_addresses", "127.0.0.1"},
        {"port", std::to_string(port_)},
        {"unix_socket_directories", socket_dir_.string()},
        {"log_line_prefix", "%m [%p] %b %d "},
        {"log_destination", "stderr"},
        {"timezone", "UTC"},
    };
    for (const auto &[name, value] : settings)
        settings_[name] = value;

    init_data_dir(data_dir_, own_program("initdb"), initdb_options);

    std::string conf = read_file(data_dir_ / "postgresql.conf");
    write_file(data_dir_ / "postgresql.conf", conf + "\ninclude 'harness.conf'\n");
    write_settings();
}

// Replaced in one step, so that a reload never reads half a file.
void
PgCluster::write_settings() const
{
    std::string text;
    for (const auto &[name, value] : settings_)
        text += name + " = " + quoted(value) + "\n";
    const fs::path path = data_dir_ / "harness.conf";
    const fs::path next = data_dir_ / "harness.conf.new";
    write_file(next, text);
    give_to_server_user(next);
    fs::rename(next, path);
}

void
PgCluster::configure(const std::string &name, const std::string &value)
{
    settings_[name] = value;
    write_settings();
}

void
PgCluster::unconfigure(const std::string &name)
{
    settings_.erase(name);
    write_settings();
}

void
PgCluster::start()
{
    if (running())
        throw std::logic_error("the cluster is running already");
    Command postgres({own_program("postgres"), "-D", data_dir_.string()});
    postgres.argv.insert(postgres.argv.end(), words_.begin(), words_.end());
    postgres.directory = home_.string();
    postgres.output = log_.string();
    postgres.as_server_user = true;
    postgres.death_signal = SIGQUIT; // so that the postmaster takes its children along
    std::string preloaded = in_build("test/tell_end.so");
    if (!clock_.empty())
    {
        preloaded += ":" + in_build("test/set_clock.so");
        postgres.environment["OUTBOX_TEST_CLOCK"] = clock_.string();
    }
    else if (pauses_)
        preloaded += ":" + in_build("test/pause_anywhere.so");
    if (!host_.empty())
    {
        preloaded += ":" + in_build("test/moving_host.so");
        postgres.environment["OUTBOX_TEST_HOST"] = host_.string();
    }
    postgres.environment["LD_PRELOAD"] = preloaded;
    server_ = std::make_unique<Process>(postgres);

    const auto settled = [this] { return !server_->running() || accepts_connections(); };
    if (!wait_until(kStartLimit, settled) || !server_->running())
        throw std::runtime_error("PostgreSQL did not start, its log ends with:\n" + log_tail());
}

bool
PgCluster::accepts_connections() const
{
    return PQping(conninfo("postgres").c_str()) == PQPING_OK;
}

void
PgCluster::make_clock_settable()
{
    clock_ = home_ / "clock";
    set_clock(std::chrono::seconds(0));
}

void
PgCluster::set_clock(std::chrono::seconds ahead) const
{
    if (clock_.empty())
        throw std::logic_error("the cluster's clock cannot be set");
    // In place, as the server has mapped the file.
    const int64_t seconds = ahead.count();
    std::fstream file(clock_, std::ios::binary | std::ios::in | std::ios::out);
    if (!file.is_open())
        file.open(clock_, std::ios::binary | std::ios::out);
    file.write(reinterpret_cast<const char *>(&seconds), sizeof seconds);
    file.close();
    if (!file)
        throw std::runtime_error("cannot write " + clock_.string());
}

Milliseconds
PgCluster::stop(Shutdown how)
{
    // PostgreSQL 15 never ends when a fast or smart shutdown is asked for while it recovers from a
    // crash: it waits for its checkpointer, which it does not tell.
    if (server_ && how != Shutdown::kImmediate)
        wait_until(kStartLimit, [this] { return !server_->running() || accepts_connections(); });
    const auto asked = Clock::now();
    if (server_ && !server_->stop(signal_of(how), kStopLimit))
        throw std::runtime_error("PostgreSQL did not stop, its log ends with:\n" + log_tail());
    server_.reset();
    return since(asked);
}

void
PgCluster::kill9()
{
    server_->kill9();
    server_.reset();
    const auto children_gone = [this] { return processes_below(data_dir_).empty(); };
    if (wait_until(kStopLimit, children_gone))
        return;
    std::string left;
    for (const pid_t pid : processes_below(data_dir_))
    {
        left += " " + std::to_string(pid);
        kill(pid, SIGKILL);
    }
    throw std::runtime_error("server processes outlived their postmaster:" + left);
}

void
PgCluster::restart(Shutdown how)
{
    stop(how);
    start();
}

void
PgCluster::reload()
{
    server_->signal(SIGHUP);
}

std::string
PgCluster::conninfo(const std::string &database) const
{
    return "host=" + quoted(socket_dir_.string()) + " port=" + std::to_string(port_) +
           " user=postgres connect_timeout=10 dbname=" + quoted(database);
}

std::string
PgCluster::read_log() const
{
    return read_file(log_);
}

bool
PgCluster::log_contains(const std::string &text) const
{
    return log_text().find(text) != std::string::npos;
}

std::string
PgCluster::log_tail() const
{
    constexpr size_t kTail = 4000;
    const std::string text = log_text();
    return text.size() > kTail ? text.substr(text.size() - kTail) : text;
}

std::vector<std::string>
PgCluster::new_crashes()
{
    const std::string text = log_text();
    std::istringstream lines(text.substr(std::min(log_checked_, text.size())));
    log_checked_ = text.size();
    std::vector<std::string> crashes;
    bool in_stack = false;
    for (std::string line; std::getline(lines, line);)
    {
        in_stack = in_stack && !line.empty() && line.back() == ']'; // a frame
        if (in_stack)
            crashes.back() += "\n" + line;
        else if (tells_of_crash(line, kill_expected_))
        {
            crashes.push_back(line);
            in_stack = line.find("outbox test: crash") == 0;
        }
    }
    return crashes;
}

} // namespace outbox::test
