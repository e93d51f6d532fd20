// The library as users get it: installed into a directory of its own, found by pkg-config and
// CMake, and the examples built against that and run.
#include <filesystem>

#include "harness.h"
#include "support/process.h"
#include "support/tree.h"

using namespace outbox::test;

namespace
{

// As a user would write it who read the release's name.
std::string
version()
{
    const std::string control = read_file(in_source("extension/outbox.control"));
    const std::string before = "default_version = '";
    const size_t begin = control.find(before) + before.size();
    return control.substr(begin, control.find('\'', begin) - begin);
}

// Installed once for all tests here, where nothing else finds it.
const std::string &
installed()
{
    static const std::string prefix = []
    {
        const std::string destination = run_dir() / "installed";
        Command make({"make", "-C", in_source("."), "install-client", "DESTDIR=" + destination,
                      "PREFIX=/prefix"});
        make.environment = {{"MAKEFLAGS", ""}};
        run_or_throw(make, std::chrono::seconds(120));
        // As a package would be unpacked.
        std::filesystem::rename(destination + "/prefix", run_dir() / "prefix");
        return (run_dir() / "prefix").string();
    }();
    return prefix;
}

std::string
shell(const std::string &command, const std::map<std::string, std::string> &environment = {})
{
    Command sh({"sh", "-ec", command});
    sh.environment = environment;
    sh.environment.emplace("LD_LIBRARY_PATH", installed() + "/lib");
    return run_or_throw(sh, std::chrono::seconds(90));
}

// As a user compiles.
std::string
with_pkg_config(const std::string &example)
{
    const std::string program = run_dir() / example;
    shell("flags=$(pkg-config --cflags --libs outbox_client); g++ -std=c++17 -Wall"
          " -Wextra -Werror -o " +
              program + " " + in_source("client/examples/") + example + ".cpp $flags",
          {{"PKG_CONFIG_PATH", installed() + "/lib/pkgconfig"}});
    return program;
}

std::string
sql_state(Db &db)
{
    return db.value(
        "select coalesce(string_agg(account || '=' || balance, ',' order by account), '')"
        " from balances");
}

} // namespace

TEST(Install, NoHeaderOfAServerAndNoSymbolOfOursIsInTheWay)
{
    EXPECT_EQ(shell("grep -rE 'include.*(postgres\\.h|rdkafka|hiredis)' " + installed() +
                    "/include || true"),
              "");
    // What the library exports is in its own namespace.
    EXPECT_EQ(
        shell("nm -DC --defined-only " + installed() +
              "/lib/liboutbox_client.so.0 | grep -v 'outbox::v0::' | grep -E ' [TDB] ' || true"),
        "");
    EXPECT_EQ(
        shell("nm -DC --defined-only " + installed() +
              "/lib/liboutbox_client.so.0 | grep 'outbox::v0::detail::' | grep ' T ' || true"),
        "");
}

TEST(Install, EachHeaderCompilesAlone)
{
    for (const auto &header : std::filesystem::directory_iterator(installed() + "/include/outbox"))
        shell("echo '#include <outbox/" + header.path().filename().string() +
              ">' | g++ -std=c++17 -Wall -Wextra -Werror -fsyntax-only -x c++ -I" + installed() +
              "/include $(pkg-config --cflags libpq) -");
}

TEST(Install, TheExamplesBuiltByPkgConfigProduceAndConsume)
{
    TestDatabase database(cluster());
    Db db = database.connect();
    db.exec(
        "create table payments (id bigint generated always as identity, account text, amount"
        " numeric); create table balances (account text primary key, balance numeric not null);");
    const std::string conninfo = cluster().conninfo(database.name());
    const std::string producer = with_pkg_config("producer");
    const std::string id = shell(producer + " \"" + conninfo + "\" ada 25.00");
    shell(producer + " \"" + conninfo + "\" ada 17");
    EXPECT_EQ(id.size(), 37U) << id;
    EXPECT_THROW(shell(producer + " \"" + conninfo + "\" ada abc"), std::exception);
    EXPECT_EQ(db.value("select count(*) from outbox.events"), "2");

    Command command({with_pkg_config("consumer"), conninfo, kafka().bootstrap()});
    command.environment = {{"LD_LIBRARY_PATH", installed() + "/lib"}};
    Process consumer(command);
    EXPECT_TRUE(wait_until(kSoon, [&] { return sql_state(db) == "ada=42.00"; })) << sql_state(db);
    EXPECT_TRUE(consumer.stop(SIGINT, std::chrono::seconds(10)));
    EXPECT_EQ(consumer.wait_for(Milliseconds(0)), 0);
}

TEST(Install, TheHttpExampleBuiltByCmakeAnswersARequestOnce)
{
    const std::filesystem::path directory = run_dir() / "cmake-user";
    std::filesystem::create_directory(directory);
    write_file(directory / "CMakeLists.txt",
               "cmake_minimum_required(VERSION 3.13)\n"
               "project(user CXX)\n"
               "find_package(outbox_client " +
                   version() +
                   " REQUIRED)\n"
                   "foreach(kind shared static)\n"
                   "  add_executable(handler_${kind} " +
                   in_source("client/examples/http_handler.cpp") +
                   ")\n"
                   "endforeach()\n"
                   "target_link_libraries(handler_shared outbox_client::outbox_client)\n"
                   "target_link_libraries(handler_static outbox_client::outbox_client_static)\n");
    shell("cmake -S " + directory.string() + " -B " + directory.string() +
          "/build -DCMAKE_PREFIX_PATH=" + installed() + " && cmake --build " + directory.string() +
          "/build");

    TestDatabase database(cluster());
    Db db = database.connect();
    db.exec("create table payments (id bigint generated always as identity, account text, amount"
            " numeric)");
    const auto post =
        [&](const std::string &program, const std::string &key, const std::string &body)
    {
        return shell("printf '%s' '" + body + "' | " + directory.string() + "/build/" + program,
                     {{"PGHOST", cluster().socket_dir().string()},
                      {"PGPORT", std::to_string(cluster().port())},
                      {"PGUSER", "postgres"},
                      {"PGDATABASE", database.name()},
                      {"HTTP_IDEMPOTENCY_KEY", key}});
    };
    const std::string body = R"({"account": "ada", "amount": 5})";
    const std::string first = post("handler_shared", "k1", body);
    EXPECT_EQ(first.substr(0, 11), "Status: 201") << first;
    EXPECT_EQ(post("handler_static", "k1", body), first);
    EXPECT_EQ(post("handler_shared", "k1", "{}").substr(0, 11), "Status: 422");
    EXPECT_EQ(post("handler_shared", "", body).substr(0, 11), "Status: 400");
    EXPECT_NE(post("handler_shared", "k2", "no json").find("Status: 500"), std::string::npos);
    EXPECT_EQ(db.value("select count(*) from payments"), "1");
    EXPECT_EQ(db.value("select count(*) from outbox.events"), "1");
}
