#include "redis_server.h"

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include <hiredis/hiredis.h>

#include "outbox/error.h"
#include "support/workspace.h"

namespace outbox::test
{

namespace
{

// Debian's package redis-server also starts a server for the machine. Its program is in redis-tools
// as well, as redis-check-rdb: which of the two it is goes by the name that it is called by.
std::string
redis_program()
{
    const char *path = std::getenv("PATH");
    std::istringstream directories(path == nullptr ? "/usr/bin" : path);
    std::string directory;
    std::string check_rdb;
    while (std::getline(directories, directory, ':'))
    {
        if (std::filesystem::exists(directory + "/redis-server"))
            return directory + "/redis-server";
        if (check_rdb.empty() && std::filesystem::exists(directory + "/redis-check-rdb"))
            check_rdb = directory + "/redis-check-rdb";
    }
    if (check_rdb.empty())
        throw std::runtime_error("there is no Redis; scripts/deps.sh check installs it");
    const std::filesystem::path link = run_dir() / "redis-server";
    if (!std::filesystem::exists(link))
        std::filesystem::create_symlink(check_rdb, link);
    return link;
}

} // namespace

RedisServer::RedisServer(const std::string &password) : port_(free_port()), password_(password)
{
    start();
}

outbox::RedisOptions
RedisServer::options() const
{
    outbox::RedisOptions options;
    options.port = port_;
    options.password = password_;
    options.ttl = std::chrono::minutes(10);
    options.replay_window = std::chrono::minutes(5);
    options.timeout = Milliseconds(10000);
    return options;
}

void
RedisServer::command(const std::vector<std::string> &words) const
{
    const std::unique_ptr<redisContext, decltype(&redisFree)> context(
        redisConnect("127.0.0.1", port_), &redisFree);
    std::vector<const char *> texts;
    for (const std::string &word : words)
        texts.push_back(word.c_str());
    const std::unique_ptr<redisReply, decltype(&freeReplyObject)> reply(
        static_cast<redisReply *>(
            redisCommandArgv(context.get(), static_cast<int>(words.size()), texts.data(), nullptr)),
        &freeReplyObject);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        throw std::runtime_error("Redis does not take " + words[0] + ": " +
                                 (reply ? reply->str : context->errstr));
}

void
RedisServer::start()
{
    Command command({redis_program(), "--port", std::to_string(port_), "--bind", "127.0.0.1",
                     "--save", "", "--appendonly", "no", "--dir", run_dir().string()});
    if (!password_.empty())
        command.argv.insert(command.argv.end(), {"--requirepass", password_});
    command.output = new_log("redis");
    process_ = std::make_unique<Process>(command);
    outbox::RedisDedupStore store(options());
    const auto answers = [&]
    {
        try
        {
            (void) store.claim(nullptr, "harness", "ready");
            return true;
        }
        catch (const outbox::StoreError &)
        {
            return false;
        }
    };
    if (!wait_until(std::chrono::seconds(20), answers))
        throw std::runtime_error("Redis does not start, see " + command.output);
}

} // namespace outbox::test
