// initdb is most of what a cluster of a test costs, so each program runs it once and then copies
// what it made.
#include "pg_template.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <stdexcept>

#include "process.h"
#include "workspace.h"

namespace fs = std::filesystem;

namespace outbox::test
{

namespace
{

constexpr size_t kIdentifierSize = sizeof(uint64_t);

// CRC-32C, as PostgreSQL computes it over pg_control.
uint32_t
crc32c(const char *data, size_t size)
{
    constexpr uint32_t kPolynomial = 0x82F63B78;
    uint32_t crc = 0xFFFFFFFF;
    for (size_t i = 0; i < size; ++i)
    {
        crc ^= static_cast<unsigned char>(data[i]);
        for (int bit = 0; bit < 8; ++bit)
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    }
    return ~crc;
}

// Where the checksum of everything before it is; that differs from version to version.
size_t
find_checksum(const std::string &control)
{
    constexpr size_t kMost = 512; // pg_control's content fits into a sector of a disk
    for (size_t at = kIdentifierSize; at + sizeof(uint32_t) <= kMost && at < control.size();
         at += 4)
    {
        const uint32_t expected = crc32c(control.data(), at);
        if (std::memcmp(control.data() + at, &expected, sizeof(expected)) == 0)
            return at;
    }
    throw std::runtime_error("pg_control has no checksum");
}

// The identifier is in pg_control and at the start of each WAL segment.
void
change_system_identifier(const fs::path &data_dir, uint64_t distance)
{
    const fs::path control_file = data_dir / "global" / "pg_control";
    std::string control = read_file(control_file);
    const size_t checksum_at = find_checksum(control);
    const std::string before = control.substr(0, kIdentifierSize);
    uint64_t identifier = 0;
    std::memcpy(&identifier, before.data(), kIdentifierSize);
    identifier += distance;
    std::memcpy(control.data(), &identifier, kIdentifierSize);
    const uint32_t checksum = crc32c(control.data(), checksum_at);
    std::memcpy(control.data() + checksum_at, &checksum, sizeof(checksum));
    write_file(control_file, control);

    for (const auto &segment : fs::directory_iterator(data_dir / "pg_wal"))
    {
        if (!segment.is_regular_file())
            continue;
        std::fstream file(segment.path(), std::ios::in | std::ios::out | std::ios::binary);
        std::string header(64, '\0');
        file.read(header.data(), static_cast<std::streamsize>(header.size()));
        const size_t at = header.find(before);
        if (at == std::string::npos)
            throw std::runtime_error("no system identifier in " + segment.path().string());
        file.seekp(static_cast<std::streamoff>(at));
        file.write(control.data(), static_cast<std::streamsize>(kIdentifierSize));
        if (!file.flush())
            throw std::runtime_error("cannot write " + segment.path().string());
    }
}

void
run_as_server(std::vector<std::string> argv)
{
    Command command(std::move(argv));
    command.as_server_user = true;
    run_or_throw(command);
}

} // namespace

void
init_data_dir(const fs::path &data_dir, const std::string &initdb,
              const std::vector<std::string> &options)
{
    static std::mutex mutex;
    static std::map<std::vector<std::string>, fs::path> made; // by the command without --pgdata
    static uint64_t copies = 0;

    // --no-sync spares the new directory's fsync only; the running server's fsync stays on.
    std::vector<std::string> argv = {initdb,         "--no-sync",       "--username=postgres",
                                     "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8"};
    argv.insert(argv.end(), options.begin(), options.end());

    const std::lock_guard<std::mutex> lock(mutex);
    fs::path &original = made[argv];
    if (original.empty())
    {
        const fs::path home = run_dir() / unique_name("initdb-");
        fs::create_directory(home);
        give_to_server_user(home);
        std::vector<std::string> complete = argv;
        complete.push_back("--pgdata=" + (home / "data").string());
        run_as_server(complete);
        original = home / "data";
    }
    run_as_server({"cp", "-a", original.string(), data_dir.string()});
    change_system_identifier(data_dir, ++copies);
}

} // namespace outbox::test
