// Runs a command against a private PostgreSQL cluster that has the extension preloaded:
//   with_cluster [name=value ...] [--] command [argument ...]
// Before the command come settings of the server. The command finds the server by PGHOST, PGPORT
// and PGUSER, and its status is ours, unless the server's log tells of a crash: then it is 3.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "support/pg_cluster.h"
#include "support/workspace.h"

using namespace outbox::test;

namespace
{

constexpr int kCrashed = 3;
constexpr int kBroken = 125;
constexpr auto kCommandLimit = std::chrono::minutes(30); // scripts/check has the tighter limits

// Whether the word is name=value with a setting's name.
bool
is_setting(const std::string &word)
{
    const size_t equals = word.find('=');
    return equals != std::string::npos && equals > 0 &&
           word.find_first_not_of("abcdefghijklmnopqrstuvwxyz_.0123456789") == equals;
}

int
run_command(PgCluster &cluster, const std::vector<std::string> &words)
{
    Command command(words);
    command.directory = std::filesystem::current_path();
    command.environment = {{"PGHOST", cluster.socket_dir().string()},
                           {"PGPORT", std::to_string(cluster.port())},
                           {"PGUSER", "postgres"}};
    Process process(command);
    const std::optional<int> status = process.wait_for(kCommandLimit);
    if (!status)
        return kBroken;
    return WIFEXITED(*status) ? WEXITSTATUS(*status) : 128 + WTERMSIG(*status);
}

int
run_with_cluster(std::vector<std::string> words)
{
    Settings settings;
    while (!words.empty() && is_setting(words.front()))
    {
        const std::string &word = words.front();
        settings[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
        words.erase(words.begin());
    }
    if (!words.empty() && words.front() == "--")
        words.erase(words.begin());
    if (words.empty())
    {
        std::fprintf(stderr, "usage: with_cluster [name=value ...] [--] command [argument ...]\n");
        return kBroken;
    }

    PgCluster cluster("with-cluster");
    cluster.init(settings);
    cluster.start();
    int status = run_command(cluster, words);
    cluster.stop();
    for (const std::string &line : cluster.new_crashes())
    {
        std::fprintf(stderr, "server crash: %s\n", line.c_str());
        status = kCrashed;
    }
    return status;
}

} // namespace

int
main(int argc, char **argv)
{
    try
    {
        return run_with_cluster(std::vector<std::string>(argv + 1, argv + argc));
    }
    catch (const std::exception &error)
    {
        std::fprintf(stderr, "with_cluster: %s\n", error.what());
        return kBroken;
    }
}
