#include "machine.h"

#include <cstdlib>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <librdkafka/rdkafka.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "support/process.h"
#include "support/tree.h"
#include "support/workspace.h"

namespace outbox::bench
{

namespace
{

// What follows `before` in its first line, up to `after` or the line's end; empty when not there.
std::string
part_of(const std::string &text, const std::string &before, const std::string &after)
{
    const size_t found = text.find(before);
    if (found == std::string::npos)
        return "";
    const size_t begin = found + before.size();
    const size_t end = std::min(text.find(after, begin), text.find('\n', begin));
    return text.substr(begin, end == std::string::npos ? end : end - begin);
}

std::string
processor()
{
    const std::string model = part_of(test::read_file("/proc/cpuinfo"), "model name\t: ", "\n");
    return fmt::format("{}, {} cores", model.empty() ? "unknown processor" : model,
                       std::thread::hardware_concurrency());
}

std::string
memory()
{
    const double bytes =
        static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
    return fmt::format("{:.0f} GB", bytes / 1e9);
}

std::string
kernel()
{
    utsname names = {};
    if (uname(&names) != 0)
        return "unknown";
    return fmt::format("{} {}", names.sysname, names.release);
}

} // namespace

double
load_average()
{
    double load = 0;
    return getloadavg(&load, 1) == 1 ? load : 0;
}

std::vector<std::pair<std::string, std::string>>
describe_machine()
{
    return {{"processor", processor()},
            {"memory", memory()},
            {"kernel", kernel()},
            {"load before", fmt::format("{:.2f}", load_average())}};
}

std::vector<std::pair<std::string, std::string>>
describe_versions(test::Db &db)
{
    const std::string pom = test::read_file(test::in_source("test/support/kafka-pom.xml"));
    const std::string debezium = test::read_file(test::in_source("test/support/debezium-pom.xml"));
    const std::string java = test::run(test::Command({"java", "-version"})).output;
    return {{"outbox", db.value("select outbox.version()")},
            {"PostgreSQL", db.value("show server_version")},
            {"Apache Kafka", part_of(pom, "<kafka.version>", "<")},
            {"Debezium", part_of(debezium, "<debezium.version>", "<")},
            {"Java", part_of(java, "version \"", "\"")},
            {"librdkafka", rd_kafka_version_str()}};
}

} // namespace outbox::bench
